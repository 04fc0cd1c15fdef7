/**
 * Notifications as the providers document them. `delivery` changes what a provider makes anew for each delivery;
 * the headers with signatures are left to a guard.
 */

/** @see https://pay.weixin.qq.com/docs/partner/apis/partner-h5-payment/payment-notice.html */
export function wechatPay(id: string, delivery: number) {
  return {
    id,
    create_time: '2018-06-08T10:34:56+08:00',
    resource_type: 'encrypt-resource',
    event_type: 'TRANSACTION.SUCCESS',
    summary: '支付成功',
    resource: {
      original_type: 'transaction',
      algorithm: 'AEAD_AES_256_GCM',
      ciphertext: `ciphertext-${delivery}`,
      associated_data: 'transaction',
      nonce: `nonce-${delivery}`,
    },
  };
}

/** Sent as a form. @see https://opendocs.alipay.com/open/270/105902 */
export function alipay(notify_id: string, delivery: number) {
  return {
    notify_time: `2015-12-27 15:45:5${delivery}`,
    notify_type: 'trade_status_sync',
    notify_id,
    sign_type: 'RSA2',
    sign: `601510b7970e52cc63db0f44997cf70e-${delivery}`,
    trade_no: '2013112011001004330000121536',
    app_id: '2014072300007148',
    out_trade_no: '6823789339978248',
    buyer_id: '2088102122524333',
    seller_id: '2088101106499364',
    trade_status: 'TRADE_SUCCESS',
    total_amount: '20.00',
    subject: '当面付交易 & more',
    gmt_payment: '2015-12-27 15:45:57',
  };
}

/** @see https://docs.stripe.com/api/events/object */
export function stripe(id: string, delivery: number) {
  return {
    id,
    object: 'event',
    api_version: '2019-02-19',
    created: 1_686_089_970,
    data: { object: { id: 'seti_1NG8Du2eZvKYlo2C9XMqbR0x', object: 'setup_intent', status: 'succeeded' } },
    livemode: false,
    pending_webhooks: delivery - 1,
    request: { id: null, idempotency_key: null },
    type: 'setup_intent.succeeded',
  };
}

/** @see https://docs.adyen.com/api-explorer/Webhooks/latest/post/AUTHORISATION */
export function adyen(pspReference: string, delivery: number) {
  return {
    live: 'false',
    notificationItems: [
      {
        NotificationRequestItem: {
          additionalData: { hmacSignature: `signature-${delivery}`, authCode: '1234' },
          amount: { currency: 'EUR', value: 1_130 },
          eventCode: 'AUTHORISATION',
          eventDate: '2019-06-28T18:03:50+01:00',
          merchantAccountCode: 'TestMerchant',
          merchantReference: 'TestPayment-1407325143704',
          operations: ['CANCEL', 'CAPTURE', 'REFUND'],
          paymentMethod: 'visa',
          pspReference,
          reason: '1234:7777:12/2030',
          success: 'true',
        },
      },
    ],
  };
}
