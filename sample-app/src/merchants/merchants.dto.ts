import { IsInt, Max, Min } from 'class-validator';

export class TopUpDto {
  /** How many paid orders are prepaid. */
  @IsInt()
  @Min(1)
  @Max(1_000_000)
  amount!: number;
}
