/** Loaded before the sample by the demo: a demo that is killed leaves no sample process behind. */
process.once('disconnect', () => process.exit(1));
process.channel?.unref();
