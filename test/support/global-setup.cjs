const { ensureRedis } = require('./ensure-redis.cjs');

/** Jest's global set-up: every worker inherits the server's path. */
module.exports = function globalSetup() {
  process.env.REDIS_SERVER = ensureRedis();
};
