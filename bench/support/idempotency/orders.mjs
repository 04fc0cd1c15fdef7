/**
 * The handler that everybody runs: a small order in, a small order out. It is the same function on every route, so
 * what differs is what stands around it.
 *
 * @typedef {object} OrderRequest
 * @property {string} sku
 * @property {number} quantity
 * @property {{ id: string, email: string }} customer
 * @property {Array<{ code: string, percent: number }>} discounts
 */

let runs = 0;

/** How often the handler ran in this process. */
export const orderRuns = () => runs;

/** @param {OrderRequest} order */
export async function createOrder({ sku, quantity, customer, discounts }) {
  runs += 1;
  return {
    orderId: `order-${runs}`,
    status: 'created',
    lines: [{ sku, quantity, unitPrice: 1_999, total: quantity * 1_999 }],
    customer,
    discounts,
  };
}

/** What is sent, always: a repeat must be the same request. @type {OrderRequest} */
export const ORDER = {
  sku: 'apple-13',
  quantity: 2,
  customer: { id: 'c-10001', email: 'someone@example.org' },
  discounts: [{ code: 'SPRING', percent: 10 }],
};

/**
 * A controller with one `POST` route per entry, made without a compiler: a decorator is a function.
 *
 * @param {{ Controller: () => ClassDecorator, Post: (path: string) => MethodDecorator, Body: () => ParameterDecorator }} nest
 * @param {Record<string, readonly MethodDecorator[]>} routes by path
 * @returns {new () => object}
 */
export function ordersController({ Controller, Post, Body }, routes) {
  class OrdersController {}
  const prototype = OrdersController.prototype;
  for (const [path, decorators] of Object.entries(routes)) {
    Object.defineProperty(prototype, path, {
      value: (/** @type {OrderRequest} */ order) => createOrder(order),
      writable: true,
      configurable: true,
    });
    Body()(prototype, path, 0);
    for (const decorate of [...decorators, Post(path)]) {
      const descriptor = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(prototype, path));
      decorate(prototype, path, descriptor);
      Object.defineProperty(prototype, path, descriptor);
    }
  }
  Controller()(OrdersController);
  return OrdersController;
}
