import { IsInt, IsString, Length, Max, Min } from 'class-validator';

export class CreateOrderDto {
  @IsString()
  @Length(1, 64)
  sku!: string;

  @IsInt()
  @Min(1)
  @Max(1_000)
  quantity!: number;
}
