import type { Script } from '../script.js';
import { abandonRecordScript } from './abandon-record.lua.js';
import { acquireAllScript } from './acquire-all.lua.js';
import { acquireScript } from './acquire.lua.js';
import { beginScript } from './begin.lua.js';
import { carryOutScript } from './carry-out.lua.js';
import { completeScript } from './complete.lua.js';
import { deductAtScript } from './deduct-at.lua.js';
import { extendScript } from './extend.lua.js';
import { forceReleaseScript } from './force-release.lua.js';
import { forgetRecordScript } from './forget-record.lua.js';
import { giveBackAtScript } from './give-back-at.lua.js';
import { giveWayScript } from './give-way.lua.js';
import { initShardScript } from './init-shard.lua.js';
import { inspectRecordScript } from './inspect-record.lua.js';
import { inspectScript } from './inspect.lua.js';
import { manyScript } from './many.lua.js';
import { moveOperationScript } from './move-operation.lua.js';
import { raiseFenceScript } from './raise-fence.lua.js';
import { releaseRecordScript } from './release-record.lua.js';
import { keepScript, leaveScript, releaseScript } from './release.lua.js';
import { renewScript } from './renew.lua.js';
import { takePartScript } from './take-part.lua.js';
import { takeScript } from './take.lua.js';

/** Every script, for a server that is to know them before the first call. */
export function allScripts(isCluster: boolean): readonly Script[] {
  const passing = [acquireScript, releaseScript, giveWayScript, leaveScript, forceReleaseScript];
  return [
    ...passing.map(({ single, cluster }) => (isCluster ? cluster : single)),
    manyScript,
    acquireAllScript,
    raiseFenceScript,
    extendScript,
    keepScript,
    inspectScript,
    beginScript,
    renewScript,
    completeScript,
    releaseRecordScript,
    abandonRecordScript,
    inspectRecordScript,
    forgetRecordScript,
    takeScript,
    carryOutScript,
    initShardScript,
    moveOperationScript,
    deductAtScript,
    takePartScript,
    giveBackAtScript,
  ];
}
