/** Why something failed, in one line. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Several addresses were tried and none answered: Node leaves the message empty.
  const { errors } = error as { errors?: unknown[] };
  if (!error.message && Array.isArray(errors) && errors.length > 0) return reasonOf(errors[0]);
  return (error.message || error.name).replace(/^Error: /, '').replaceAll(/\s+/g, ' ');
}
