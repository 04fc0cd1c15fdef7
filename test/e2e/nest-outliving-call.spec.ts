import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DistributedLock, LockParam, LockService, RedisLockModule } from 'nestjs-redis-lock';
import { inMemoryBackend } from 'nestjs-redis-lock/testing';

describe('a guarded method that calls itself later, without waiting', () => {
  it('takes a lock of its own: the first call and its mark are over', async () => {
    let open!: () => void;
    const later = new Promise<void>((resolve) => (open = resolve));
    let detached: Promise<string> | undefined;

    @Injectable()
    class Jobs {
      @DistributedLock('job:<id>')
      async run(@LockParam('id') id: string): Promise<string> {
        detached ??= later.then(() => this.run('second'));
        return id;
      }
    }
    @Module({ imports: [RedisLockModule.forRoot({ backend: inMemoryBackend() })], providers: [Jobs] })
    class App {}

    const app = await (await Test.createTestingModule({ imports: [App] }).compile()).init();
    const acquired: string[] = [];
    app.get(LockService).events.subscribe(({ type, key }) => type === 'acquired' && acquired.push(key));

    expect(await app.get(Jobs).run('first')).toBe('first');
    open();
    expect(await detached).toBe('second');
    expect(acquired).toEqual(['job:first', 'job:second']);
    await app.close();
  });
});
