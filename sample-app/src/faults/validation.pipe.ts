import { BadRequestException, ValidationPipe, type ValidationError } from '@nestjs/common';

/** Checks bodies and queries against their DTO; the answer names each field that is wrong. */
export const validationPipe = (): ValidationPipe =>
  new ValidationPipe({
    transform: true,
    whitelist: true,
    exceptionFactory: (errors) =>
      new BadRequestException({ statusCode: 400, code: 'INVALID_INPUT', message: messagesOf(errors) }),
  });

function messagesOf(errors: ValidationError[], path = ''): string[] {
  return errors.flatMap(({ property, constraints = {}, children = [] }) => [
    ...Object.values(constraints).map((message) => `${path}${message}`),
    ...messagesOf(children, `${path}${property}.`),
  ]);
}
