import { Injectable } from '@nestjs/common';
import { OrdersService } from '../orders/orders.service.js';
import { CallbackSender, type Delivery } from './callback-sender.js';
import { DashboardFeed } from './dashboard.feed.js';
import type { SendCallbackDto } from './dashboard.dto.js';

const TIMES = 5;

export interface SendCallbackResult {
  /** The whole, in one sentence. */
  summary: string;
  deliveries: number;
  requests: number;
  taken: number;
  replayed: number;
  refused: number;
  /** Why, in the words of the answers; each once. */
  faults: { status: number; code: string; message: string }[];
  /** How many payments the database has for the order. */
  payments: number;
}

/** "Send this callback 5 times": one notification, five deliveries at once, as providers do after a time-out. */
@Injectable()
export class SendCallbackAction {
  constructor(
    private readonly sender: CallbackSender,
    private readonly orders: OrdersService,
    private readonly feed: DashboardFeed,
  ) {}

  async run({ orderId, amount, provider, forged }: SendCallbackDto): Promise<SendCallbackResult> {
    const notice = {
      provider,
      // The same each time it is asked for: sent once more, it is the same notification still.
      notificationId: `page-${provider}-${orderId}-${amount}`,
      orderId,
      transactionId: `page-${provider}-${orderId}`,
      amount,
    } as const;
    this.feed.step(`${TIMES} deliveries of one ${provider} callback for order ${orderId} go out at once.`);
    const deliveries = await Promise.all(
      Array.from({ length: TIMES }, () => this.sender.deliver(notice, { forged })),
    );
    const payments = (await this.orders.paymentsOf(orderId)).length;
    const result = resultOf(deliveries, payments);
    this.feed.step(result.summary, result.refused > 0 ? 'bad' : 'good');
    return result;
  }
}

function resultOf(deliveries: Delivery[], payments: number): SendCallbackResult {
  const answers = deliveries.map(({ answer }) => answer);
  const requests = deliveries.reduce((sum, delivery) => sum + delivery.requests, 0);
  const replayed = answers.filter(({ status, replayed }) => status < 400 && replayed).length;
  const taken = answers.filter(({ status, replayed }) => status < 400 && !replayed).length;
  const refused = answers.length - taken - replayed;
  const faults = new Map(
    answers
      .filter(({ status }) => status >= 400)
      .map(({ status, code = `HTTP_${status}`, message = 'no reason given' }) => [
        code,
        { status, code, message },
      ]),
  );
  const outcome = [
    [taken, 'ran'],
    [replayed, 'got the stored answer'],
    [refused, refused === 1 ? 'was refused' : 'were refused'],
  ]
    .filter(([count]) => count !== 0)
    .map(([count, what]) => `${count} ${what}`)
    .join(', ');
  const why = [...faults.values()].map(({ code, message }) => ` ${code}: ${message}`).join('');
  const booked = `The database has ${payments === 1 ? '1 payment' : `${payments} payments`} for this order.`;
  const again = requests > answers.length ? ` (${requests} requests: some were told to come again)` : '';
  return {
    summary: `Of ${answers.length} deliveries ${outcome}${again}.${why} ${booked}`,
    deliveries: answers.length,
    requests,
    taken,
    replayed,
    refused,
    faults: [...faults.values()],
    payments,
  };
}
