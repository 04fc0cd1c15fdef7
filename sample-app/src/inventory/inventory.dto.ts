import { IsInt, IsString, Length, Max, Min } from 'class-validator';

export class DeductDto {
  @IsInt()
  @Min(1)
  @Max(1_000)
  quantity!: number;
}

export class FlashSaleDto {
  @IsString()
  @Length(1, 64)
  buyer!: string;
}
