import { parseArgs } from 'node:util';

export interface DemoOptions {
  orders: number;
  /** How often each order's callback is sent. */
  deliveries: number;
  /** How many callbacks are under way at the same moment. */
  atOnce: number;
  buyers: number;
  units: number;
  withoutModule: boolean;
}

const NUMBERS = { orders: 200, deliveries: 5, 'at-once': 40, buyers: 300, units: 100 } as const;

/** @throws Error that names the option and what it takes. */
export function parseDemoOptions(argv: string[]): DemoOptions {
  const { values } = parseArgs({
    args: argv,
    options: {
      orders: { type: 'string' },
      deliveries: { type: 'string' },
      'at-once': { type: 'string' },
      buyers: { type: 'string' },
      units: { type: 'string' },
      'without-module': { type: 'boolean', default: false },
    },
  });
  const count = (name: keyof typeof NUMBERS): number => {
    const text = values[name];
    if (text === undefined) return NUMBERS[name];
    if (!/^[1-9]\d{0,4}$/.test(text))
      throw new Error(`--${name} takes a number from 1 to 99999, not ${JSON.stringify(text)}`);
    return Number(text);
  };
  return {
    orders: count('orders'),
    deliveries: count('deliveries'),
    atOnce: count('at-once'),
    buyers: count('buyers'),
    units: count('units'),
    withoutModule: values['without-module'],
  };
}
