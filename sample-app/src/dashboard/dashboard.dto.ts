import { IsBoolean, IsIn, IsInt, IsOptional, IsString, Length, Max, Min } from 'class-validator';

/** The provider's callback, as the page's form describes it. */
export class SendCallbackDto {
  @IsString({ message: 'The order is a text.' })
  @Length(1, 64, { message: 'The order has 1 to 64 characters.' })
  orderId!: string;

  /** In cents. */
  @IsInt({ message: 'The amount is a whole number of cents.' })
  @Min(-1_000_000_000, { message: 'The amount is out of range.' })
  @Max(1_000_000_000, { message: 'The amount is out of range.' })
  amount!: number;

  @IsIn(['wechat', 'stripe'], { message: 'The provider is wechat or stripe.' })
  provider!: 'wechat' | 'stripe';

  /** Somebody who does not have the provider's key. */
  @IsOptional()
  @IsBoolean()
  forged = false;
}

export class RaceDto {
  @IsInt({ message: 'The units are a whole number.' })
  @Min(1, { message: 'There is at least 1 unit to sell.' })
  @Max(300, { message: 'There are at most 300 units to sell: one for each buyer.' })
  units!: number;
}
