// Reads server-sent events out of a fetched body, because EventSource can not send a token. Pure parsing.

/** Takes text piece by piece and calls `onEvent({ event, id, data })` for every whole event. */
export function eventReader(onEvent) {
  let rest = '';
  let event = '';
  let id = null;
  let data = [];
  const line = (text) => {
    if (text === '') {
      if (data.length || event) onEvent({ event: event || 'message', id, data: data.join('\n') });
      event = '';
      data = [];
      return;
    }
    if (text.startsWith(':')) return;
    const colon = text.indexOf(':');
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? '' : text.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') event = value;
    else if (field === 'data') data.push(value);
    else if (field === 'id') id = value;
  };
  return (piece) => {
    const lines = (rest + piece).split(/\r?\n/);
    rest = lines.pop();
    lines.forEach(line);
  };
}
