import { Module } from '@nestjs/common';
import { GatesService } from './gates.service.js';

@Module({
  providers: [GatesService],
  exports: [GatesService],
})
export class GatesModule {}
