/**
 * Carries out the orders that come over this process's channel, and answers with what came out.
 *
 * @typedef {{ id: number, job: string, options: unknown }} Order
 *
 * @param {Record<string, (options: any) => unknown>} table by the name of the job
 */
export function carryOutOrders(table) {
  /** @param {Order} order */
  async function carryOut({ id, job, options }) {
    try {
      process.send?.({ id, result: await table[job]?.(options) });
    } catch (error) {
      process.send?.({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    }
  }
  process.on('message', (/** @type {Order} */ order) => void carryOut(order));
  // the bench is over, or gone
  process.on('disconnect', () => process.exit());
}
