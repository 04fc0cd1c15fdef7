import { Injectable } from '@nestjs/common';
import { StockService, type StockLevel } from '../inventory/stock.service.js';
import { MerchantsService } from '../merchants/merchants.service.js';
import { reasonOf } from '../reason-of.js';
import type { Fault, Gates } from './dashboard-message.js';

const MOST_ARTICLES = 5;
/** What the articles of the page's own races are called. */
export const RACE_PREFIX = 'race-';

/** Reads what is left of stock and quota, by Redis and by the database. */
@Injectable()
export class GatesReader {
  constructor(
    private readonly stock: StockService,
    private readonly merchants: MerchantsService,
  ) {}

  async read(): Promise<Gates | Fault> {
    try {
      const [articles, quota] = await Promise.all([this.stock.list(), this.merchants.list()]);
      const stock = worthShowing(articles);
      return { stock, moreStock: articles.length - stock.length, quota };
    } catch (error) {
      return { fault: `Stock and quota cannot be read: ${reasonOf(error)}` };
    }
  }
}

/** Of the races only the last one's article: its name holds its time. */
function worthShowing(articles: StockLevel[]): StockLevel[] {
  const isRace = ({ sku }: StockLevel): boolean => sku.startsWith(RACE_PREFIX);
  const lastRace = articles.filter(isRace).sort((a, b) => (a.sku < b.sku ? 1 : -1));
  return [...lastRace.slice(0, 1), ...articles.filter((article) => !isRace(article))].slice(0, MOST_ARTICLES);
}
