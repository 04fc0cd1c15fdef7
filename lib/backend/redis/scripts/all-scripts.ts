import type { Script } from '../script.js';
import { abandonRecordScript } from './abandon-record.lua.js';
import { acquireAllScript } from './acquire-all.lua.js';
import { acquireScript } from './acquire.lua.js';
import { beginScript } from './begin.lua.js';
import { completeScript } from './complete.lua.js';
import { deductScript } from './deduct.lua.js';
import { extendScript } from './extend.lua.js';
import { forceReleaseScript } from './force-release.lua.js';
import { forgetRecordScript } from './forget-record.lua.js';
import { grantScript } from './grant.lua.js';
import { inspectRecordScript } from './inspect-record.lua.js';
import { inspectScript } from './inspect.lua.js';
import { raiseFenceScript } from './raise-fence.lua.js';
import { refundScript } from './refund.lua.js';
import { releaseRecordScript } from './release-record.lua.js';
import { releaseScript } from './release.lua.js';
import { renewScript } from './renew.lua.js';

/** Every script, for a server that is to know them before the first call. */
export const allScripts: readonly Script[] = [
  acquireScript,
  acquireAllScript,
  raiseFenceScript,
  extendScript,
  releaseScript,
  forceReleaseScript,
  inspectScript,
  beginScript,
  renewScript,
  completeScript,
  releaseRecordScript,
  abandonRecordScript,
  inspectRecordScript,
  forgetRecordScript,
  deductScript,
  grantScript,
  refundScript,
];
