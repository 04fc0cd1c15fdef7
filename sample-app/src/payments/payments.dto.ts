import { Type } from 'class-transformer';
import { Equals, IsDefined, IsIn, IsInt, IsString, Length, Min, ValidateNested } from 'class-validator';

const ID_MOST = 64;
const TRANSACTION_ID_MOST = 128;

class WechatAmountDto {
  /** In cents (fen). */
  @IsInt()
  @Min(1)
  total!: number;
}

/** What stands encrypted in `resource`. */
class WechatTransactionDto {
  @IsString()
  @Length(1, ID_MOST)
  out_trade_no!: string;

  @IsString()
  @Length(1, TRANSACTION_ID_MOST)
  transaction_id!: string;

  @Equals('SUCCESS')
  trade_state!: string;

  @IsDefined()
  @ValidateNested()
  @Type(() => WechatAmountDto)
  amount!: WechatAmountDto;
}

/** A payment notification of WeChat Pay, API v3, as the guard hands it on. */
export class WechatNotificationDto {
  @IsString()
  @Length(1, TRANSACTION_ID_MOST)
  id!: string;

  @IsIn(['TRANSACTION.SUCCESS'])
  event_type!: string;

  @IsDefined()
  @ValidateNested()
  @Type(() => WechatTransactionDto)
  resource!: WechatTransactionDto;
}

class StripeMetadataDto {
  @IsString()
  @Length(1, ID_MOST)
  order_id!: string;
}

class StripePaymentIntentDto {
  @IsString()
  @Length(1, TRANSACTION_ID_MOST)
  id!: string;

  /** In cents. */
  @IsInt()
  @Min(1)
  amount_received!: number;

  @IsDefined()
  @ValidateNested()
  @Type(() => StripeMetadataDto)
  metadata!: StripeMetadataDto;
}

class StripeDataDto {
  @IsDefined()
  @ValidateNested()
  @Type(() => StripePaymentIntentDto)
  object!: StripePaymentIntentDto;
}

/** An event of Stripe. Have the endpoint registered for this type alone: no other one is about an order. */
export class StripeEventDto {
  @IsString()
  @Length(1, TRANSACTION_ID_MOST)
  id!: string;

  @IsIn(['payment_intent.succeeded'])
  type!: string;

  @IsDefined()
  @ValidateNested()
  @Type(() => StripeDataDto)
  data!: StripeDataDto;
}

/** A merchant's own till tells of a payment that it took. */
export class OpenApiPaymentDto {
  @IsString()
  @Length(1, TRANSACTION_ID_MOST)
  transactionId!: string;

  /** In cents. */
  @IsInt()
  @Min(1)
  amount!: number;
}
