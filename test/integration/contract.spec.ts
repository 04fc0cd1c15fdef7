import { inMemoryBackend, runBackendContract } from 'nestjs-redis-lock/testing';
import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import { RedisServer } from '../support/redis-server.js';

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterAll(() => server.stop());

runBackendContract('memory', async () => ({ backend: inMemoryBackend() }));

runBackendContract('redis', async () => ({ backend: redisBackend({ redis: server.url }) }));

runBackendContract("redis, through a client of the application's with a prefix of its own", async () => ({
  backend: redisBackend({ redis: server.client({ keyPrefix: 'app:', db: 5 }) }),
}));
