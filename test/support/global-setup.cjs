const { ensurePostgres } = require('./ensure-postgres.cjs');
const { ensureRedis } = require('./ensure-redis.cjs');

/** Jest's global set-up: every worker inherits where the servers are. */
module.exports = function globalSetup() {
  process.env.REDIS_SERVER = ensureRedis();
  process.env.POSTGRES_BIN = ensurePostgres();
};
