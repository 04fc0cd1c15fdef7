/**
 * What the sample shares with its providers. A real platform has these from its secret store, one set per merchant, and
 * does not start without them; the defaults are here so that the sample can be tried.
 */
export const secrets = {
  wechatSigning: process.env.WECHAT_SIGNING_KEY || 'sample-wechat-signing-key',
  /** WeChat Pay calls it the APIv3 key: 32 bytes, for AES-256-GCM. */
  wechatApiV3: process.env.WECHAT_API_V3_KEY || 'sample-wechat-api-v3-key-32bytes',
  stripe: process.env.STRIPE_WEBHOOK_SECRET || 'whsec_sample',
  openApi: process.env.OPEN_API_SECRET || 'sample-open-api-secret',
};

/** How old a signed message may be, in seconds: somebody who recorded one cannot send it again for ever. */
export const SIGNATURE_TOLERANCE_S = 300;
