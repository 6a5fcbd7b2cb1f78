//! Walks the frames of an HTTP/2 connection and lets all of them pass but the headers, which it may change.
//!
//! ```text
//!   preface ─▶ frame, frame, HEADERS [CONTINUATION …], frame …
//!              └─ passes ─┘  └ held until complete ┘
//! ```
//! Bytes that break the protocol pass unchanged: the server behind knows best how to refuse them.

use super::hpack;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
const PRIORITY_LENGTH: usize = 5;
/// The longest payload every server takes.
const MOST_PAYLOAD: usize = 16 * 1024;
/// Headers longer than this are not ours to hold: the server refuses them anyway.
const MOST_HELD: usize = 64 * 1024;

/// Where in the connection we are.
#[derive(Debug, Default)]
pub(super) struct Frames {
    state: State,
    /// Read, and neither passed on nor understood yet.
    held: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    /// At the very beginning.
    #[default]
    Preface,
    /// At the first byte of a frame.
    Border,
    /// So many bytes pass as they are.
    Passing(usize),
    /// Not HTTP/2, or beyond what may be held: everything passes.
    Open,
}

/// What is to be done with the bytes at the border of a frame.
enum Verdict {
    /// Too few of them to tell.
    Wait,
    Pass(usize),
    Replace {
        length: usize,
        with: Vec<u8>,
    },
    GiveUp,
}

impl Frames {
    /// Takes bytes as they come and adds to `out` those that can go on.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        loop {
            match self.state {
                State::Preface => {
                    let known = self.held.len().min(PREFACE.len());
                    if self.held[..known] != PREFACE[..known] {
                        self.state = State::Open;
                    } else if known == PREFACE.len() {
                        self.state = State::Passing(PREFACE.len());
                    } else {
                        return;
                    }
                }
                State::Border => match judge(&self.held) {
                    Verdict::Wait => return,
                    Verdict::Pass(length) => self.state = State::Passing(length),
                    Verdict::Replace { length, with } => {
                        self.held.drain(..length);
                        out.extend_from_slice(&with);
                    }
                    Verdict::GiveUp => self.state = State::Open,
                },
                State::Passing(0) => self.state = State::Border,
                State::Passing(left) => {
                    let now = left.min(self.held.len());
                    if now == 0 {
                        return;
                    }
                    out.extend(self.held.drain(..now));
                    self.state = State::Passing(left - now);
                }
                State::Open => {
                    out.append(&mut self.held);
                    return;
                }
            }
        }
    }

    /// Nothing more will come: what is still held goes on as it is.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }
}

/// A frame at the start of some bytes.
struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: [u8; 4],
    /// With the head.
    length: usize,
    /// Nothing while it is incomplete.
    payload: Option<&'a [u8]>,
}

impl<'a> Frame<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, s, t, u, v] = bytes.first_chunk::<HEAD>()?;
        let length = HEAD + u32::from_be_bytes([0, a, b, c]) as usize;
        Some(Frame { kind, flags, stream: [s, t, u, v], length, payload: bytes.get(HEAD..length) })
    }

    fn write(kind: u8, flags: u8, stream: [u8; 4], payload: &[&[u8]], out: &mut Vec<u8>) {
        let length: usize = payload.iter().map(|part| part.len()).sum();
        out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream);
        out.extend(payload.iter().copied().flatten());
    }

    fn ends_headers(&self) -> bool {
        self.flags & END_HEADERS != 0
    }
}

fn judge(held: &[u8]) -> Verdict {
    let wait = if held.len() > MOST_HELD { Verdict::GiveUp } else { Verdict::Wait };
    let Some(first) = Frame::read(held) else { return wait };
    if first.kind != HEADERS {
        return Verdict::Pass(first.length);
    }
    let Some(payload) = first.payload else { return wait };
    let Some((priority, fragment)) = without_padding(first.flags, payload) else {
        return Verdict::Pass(first.length);
    };
    let mut block = fragment.to_vec();
    let mut length = first.length;
    let mut ended = first.ends_headers();
    while !ended {
        let Some(next) = Frame::read(&held[length..]) else { return wait };
        if next.kind != CONTINUATION || next.stream != first.stream {
            return Verdict::Pass(length);
        }
        let Some(payload) = next.payload else { return wait };
        block.extend_from_slice(payload);
        length += next.length;
        ended = next.ends_headers();
    }
    match hpack::with_local_authority(&block) {
        None => Verdict::Pass(length),
        Some(block) => Verdict::Replace { length, with: framed(&first, priority, &block) },
    }
}

/// The priority and the fields of a HEADERS frame; nothing when it says it has more padding than bytes.
fn without_padding(flags: u8, payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let unpadded = if flags & PADDED == 0 {
        payload
    } else {
        let (padding, rest) = payload.split_first()?;
        &rest[..rest.len().checked_sub(usize::from(*padding))?]
    };
    unpadded.split_at_checked(if flags & PRIORITY == 0 { 0 } else { PRIORITY_LENGTH })
}

/// Headers as frames again. Padding says nothing and counts for nothing in these, so it is left out.
fn framed(first: &Frame<'_>, priority: &[u8], block: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.len() + 2 * HEAD);
    let (now, mut later) = block.split_at(block.len().min(MOST_PAYLOAD - priority.len()));
    let end = |later: &[u8]| if later.is_empty() { END_HEADERS } else { 0 };
    let flags = first.flags & !(PADDED | END_HEADERS) | end(later);
    Frame::write(HEADERS, flags, first.stream, &[priority, now], &mut out);
    while !later.is_empty() {
        let now;
        (now, later) = later.split_at(later.len().min(MOST_PAYLOAD));
        Frame::write(CONTINUATION, end(later), first.stream, &[now], &mut out);
    }
    out
}

#[cfg(test)]
mod tests;
