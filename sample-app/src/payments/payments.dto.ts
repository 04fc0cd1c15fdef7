import { IsInt, IsString, Length, Min } from 'class-validator';

/** What the payment provider tells: this order was paid, with this transaction. */
export class PaymentNotificationDto {
  /** The notification's id: the same in every delivery of it. */
  @IsString()
  @Length(1, 128)
  id!: string;

  @IsString()
  @Length(1, 64)
  orderId!: string;

  @IsString()
  @Length(1, 128)
  transactionId!: string;

  /** In cents. */
  @IsInt()
  @Min(1)
  amount!: number;
}
