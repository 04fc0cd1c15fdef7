import { Injectable } from '@nestjs/common';
import { StockService } from '../inventory/stock.service.js';
import { MerchantsService } from '../merchants/merchants.service.js';
import { DashboardFeed } from './dashboard.feed.js';
import { RACE_PREFIX } from './gates.reader.js';
import { OwnAddress, type Answer } from './own-address.js';

const BUYERS = 300;
const MERCHANT = 'merchant-1';
const PRICE = 990;
/** By Redis, and by the database. */
const SOLD_OUT = ['QUOTA_EXCEEDED', 'SOLD_OUT'];

export interface RaceResult {
  /** The whole, in one sentence. */
  summary: string;
  sku: string;
  units: number;
  buyers: number;
  bought: number;
  /** How many were told each code. */
  refused: Record<string, number>;
  /** What the database has booked. */
  sold: number;
}

/** "Let 300 buyers race": each wants one of the last units, all in the same moment. */
@Injectable()
export class RaceAction {
  constructor(
    private readonly server: OwnAddress,
    private readonly stock: StockService,
    private readonly merchants: MerchantsService,
    private readonly feed: DashboardFeed,
  ) {}

  async run(units: number): Promise<RaceResult> {
    const sku = `${RACE_PREFIX}${Date.now()}`;
    if (!(await this.merchants.list()).some(({ id }) => id === MERCHANT)) {
      await this.merchants.topUp(MERCHANT, BUYERS, `top-up:${sku}`);
    }
    await this.stock.restock({ sku, merchantId: MERCHANT, price: PRICE }, units, `restock:${sku}`);
    this.feed.step(`${BUYERS} buyers want one of ${unitsOf(units)} of ${sku}, all at once.`);
    const answers = await Promise.all(
      Array.from({ length: BUYERS }, (_, buyer) =>
        this.server.post(`/inventory/${sku}/flash-sale`, JSON.stringify({ buyer: `buyer-${buyer + 1}` }), {
          'Content-Type': 'application/json',
        }),
      ),
    );
    const { sold } = await this.stock.find(sku);
    const result = resultOf(sku, units, answers, sold);
    this.feed.step(result.summary, sold <= units ? 'good' : 'bad');
    return result;
  }
}

function resultOf(sku: string, units: number, answers: Answer[], sold: number): RaceResult {
  const refused: Record<string, number> = {};
  for (const { status, code = `HTTP_${status}` } of answers) {
    if (status >= 400) refused[code] = (refused[code] ?? 0) + 1;
  }
  const bought = answers.filter(({ status }) => status < 400).length;
  const turnedAway = Object.entries(refused).map(([code, count]) =>
    SOLD_OUT.includes(code) ? `${count} were told that it is sold out` : `${count} were told ${code}`,
  );
  return {
    summary: `${[`${bought} of ${answers.length} buyers got one`, ...turnedAway].join(', ')}. The database has sold ${sold} of ${unitsOf(units)}: ${sold > units ? `${sold - units} too many` : 'none too many'}.`,
    sku,
    units,
    buyers: answers.length,
    bought,
    refused,
    sold,
  };
}

const unitsOf = (count: number): string => (count === 1 ? '1 unit' : `${count} units`);
