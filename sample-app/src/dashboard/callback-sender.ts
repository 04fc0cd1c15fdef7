import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { PaymentNotice } from '../payments/payment.js';
import { signedNotice, type SignedMessage } from '../payments/sample-provider.js';
import { OwnAddress, type Answer } from './own-address.js';

const REDELIVER_AFTER_MS = 250;
const MOST_DELIVERIES = 60;
const SIGNATURES = ['Stripe-Signature', 'Wechatpay-Signature'];

export interface Delivery {
  /** The last answer. */
  answer: Answer;
  /** How often it was sent until then. */
  requests: number;
}

/** Plays the payment provider: signs a notification, sends it, and sends it again until it is told a result. */
@Injectable()
export class CallbackSender {
  constructor(private readonly server: OwnAddress) {}

  async deliver(notice: PaymentNotice, { forged = false } = {}): Promise<Delivery> {
    for (let requests = 1; ; requests += 1) {
      const { path, body, headers } = forged ? forge(signedNotice(notice)) : signedNotice(notice);
      const answer = await this.server.post(path, body, headers);
      if (!isTemporary(answer) || requests === MOST_DELIVERIES) return { answer, requests };
      await sleep(REDELIVER_AFTER_MS);
    }
  }
}

/** Another delivery is still running, the lock is busy, or something is down: by the next try it may be over. */
function isTemporary({ status, code }: Answer): boolean {
  if (status === 409) {
    return code === undefined || ['FAIL', 'LOCK_BUSY', 'LOCK_TIMEOUT', 'STALE_HOLDER'].includes(code);
  }
  return status >= 500;
}

/** As somebody would sign it who does not have the key. */
function forge(message: SignedMessage): SignedMessage {
  const headers = { ...message.headers };
  for (const name of SIGNATURES) {
    if (headers[name] !== undefined)
      headers[name] = headers[name].replace(/.$/, (last) => (last === '0' ? '1' : '0'));
  }
  return { ...message, headers };
}
