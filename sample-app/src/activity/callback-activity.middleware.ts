import { Injectable, type NestMiddleware } from '@nestjs/common';
import type { NextFunction, Request, Response } from 'express';
import { ActivityService } from './activity.service.js';

/**
 * Tells what became of each callback. A middleware, because it has to see all of them: those that the signature guard
 * turns away and those that are answered from the record never reach an interceptor of the application's.
 */
@Injectable()
export class CallbackActivityMiddleware implements NestMiddleware {
  constructor(private readonly activity: ActivityService) {}

  use(_request: Request, response: Response, next: NextFunction): void {
    this.activity.tell({ type: 'callback', outcome: 'in' });
    response.once('close', () => this.tellOutcome(response));
    next();
  }

  private tellOutcome(response: Response): void {
    const { orderId, fault } = response.locals as { orderId?: string; fault?: string };
    const about = orderId === undefined ? {} : { orderId };
    if (!response.writableFinished || response.statusCode >= 400) {
      // Only the answer to a repeat of one that still runs is an error without a fault: it is the provider's shape.
      const reason = response.writableFinished ? (fault ?? 'IN_PROGRESS') : 'CONNECTION_CLOSED';
      this.activity.tell({ type: 'callback', outcome: 'refused', ...about, reason });
      return;
    }
    const replayed = response.getHeader('Idempotent-Replayed') === 'true';
    this.activity.tell({ type: 'callback', outcome: replayed ? 'replayed' : 'taken', ...about });
  }
}
