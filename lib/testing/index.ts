/** For an application's own tests, and for whoever writes another backend. */
export { inMemoryBackend, type InMemoryBackendOptions } from '../backend/memory/memory-backend.js';
export { runBackendContract, type ContractSubject, type ContractTestApi } from './backend-contract.js';
export { bindLockService, withoutLocks } from '../nest/testing-hooks.js';
