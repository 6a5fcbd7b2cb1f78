//! Connections made by hand, cut at every border.

use super::*;
use proptest::prelude::*;

const STREAM: [u8; 4] = [0, 0, 0, 1];

fn frame(kind: u8, flags: u8, payload: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    Frame::write(kind, flags, STREAM, payload, &mut out);
    out
}

/// What kubelet sends first, with an authority.
fn fields(authority: &[u8]) -> Vec<u8> {
    [
        &[0x83, 0x86, 0x44, 4][..],
        b"/a/b",
        &[0x41, authority.len() as u8],
        authority,
        &[0x40, 2],
        b"te",
        &[1, b'x'],
    ]
    .concat()
}

fn kubelets() -> Vec<u8> {
    fields(b"%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fa-reg.sock")
}

fn ours() -> Vec<u8> {
    fields(b"localhost")
}

fn connection(frames: &[Vec<u8>]) -> Vec<u8> {
    let settings = frame(4, 0, &[&[0, 4, 0, 1, 0, 0]]);
    let data = frame(0, 1, &[&[0, 0, 0, 0, 0]]);
    [PREFACE, &settings, &frames.concat(), &data].concat()
}

/// What comes out when the bytes come in pieces.
fn filtered<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut frames, mut out) = (Frames::default(), Vec::new());
    for piece in pieces {
        frames.push(piece, &mut out);
    }
    frames.finish(&mut out);
    out
}

/// Asserts what becomes of some frames, whole, byte by byte and cut in two at every border.
#[track_caller]
fn becomes(frames: &[Vec<u8>], expected: &[Vec<u8>]) {
    let (bytes, expected) = (connection(frames), connection(expected));
    assert_eq!(filtered([&bytes[..]]), expected, "whole");
    assert_eq!(filtered(bytes.chunks(1)), expected, "byte by byte");
    for border in 0..bytes.len() {
        let (start, end) = bytes.split_at(border);
        assert_eq!(filtered([start, end]), expected, "cut after {border}");
    }
}

#[test]
fn the_authority_of_plain_headers_is_replaced() {
    becomes(&[frame(HEADERS, END_HEADERS, &[&kubelets()])], &[frame(HEADERS, END_HEADERS, &[&ours()])]);
}

#[test]
fn padding_is_left_out_and_priority_stays() {
    let priority = [0x80, 0, 0, 0, 16];
    let flags = END_HEADERS | PADDED | PRIORITY | 1;
    becomes(
        &[frame(HEADERS, flags, &[&[3], &priority, &kubelets(), &[0; 3]])],
        &[frame(HEADERS, flags & !PADDED, &[&priority, &ours()])],
    );
}

#[test]
fn headers_continued_anywhere_are_put_together() {
    let all = kubelets();
    for border in 0..=all.len() {
        let (start, end) = all.split_at(border);
        becomes(
            &[
                frame(HEADERS, 1, &[start]),
                frame(CONTINUATION, 0, &[]),
                frame(CONTINUATION, END_HEADERS, &[end]),
            ],
            &[frame(HEADERS, END_HEADERS | 1, &[&ours()])],
        );
    }
}

#[test]
fn a_later_request_that_refers_to_the_first_passes() {
    let refers = frame(HEADERS, END_HEADERS, &[&[0x83, 0x86, 0xbf, 0xbe]]);
    becomes(
        &[frame(HEADERS, END_HEADERS, &[&kubelets()]), refers.clone()],
        &[frame(HEADERS, END_HEADERS, &[&ours()]), refers],
    );
}

#[test]
fn headers_too_long_for_a_frame_are_continued() {
    // 20,000 is 127 + 0x21 + 0x1b * 128 + 1 * 16,384.
    let long = [&[0x00, 1, b'x', 0x7f, 0xa1, 0x9b, 0x01][..], &[b'y'; 20_000]].concat();
    let split = |block: &[u8]| {
        let (start, end) = block.split_at(MOST_PAYLOAD);
        vec![frame(HEADERS, 0, &[start]), frame(CONTINUATION, END_HEADERS, &[end])]
    };
    let sent = connection(&split(&[kubelets(), long.clone()].concat()));
    let expected = connection(&split(&[ours(), long].concat()));
    assert_eq!(filtered(sent.chunks(1000)), expected);
}

#[test]
fn what_breaks_the_protocol_passes_for_the_server_to_refuse() {
    let too_padded = frame(HEADERS, END_HEADERS | PADDED, &[&[200], &kubelets()]);
    let interrupted = [frame(HEADERS, 0, &[&kubelets()]), frame(6, 0, &[&[0; 8]])].concat();
    let lone = frame(CONTINUATION, END_HEADERS, &[&kubelets()]);
    for wrong in [too_padded, interrupted, lone, frame(HEADERS, PADDED, &[])] {
        becomes(std::slice::from_ref(&wrong), std::slice::from_ref(&wrong));
    }
    let http1 = b"GET / HTTP/1.1\r\n\r\n";
    assert_eq!(filtered(http1.chunks(1)), http1);
}

#[test]
fn headers_without_end_are_not_held_for_ever() {
    let mut frames = Frames::default();
    let (mut sent, mut out) = (connection(&[frame(HEADERS, 0, &[&kubelets()])]), Vec::new());
    sent.truncate(sent.len() - HEAD - 5);
    frames.push(&sent, &mut out);
    for _ in 0..16 {
        let more = frame(CONTINUATION, 0, &[&[0; 8 * 1024]]);
        sent.extend_from_slice(&more);
        frames.push(&more, &mut out);
        assert!(frames.held.len() <= MOST_HELD + more.len());
    }
    assert_eq!(out, sent);
}

/// A string with its length, coded or not.
fn string() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(coded, bytes)| [&[u8::from(coded) << 7 | bytes.len() as u8][..], &bytes].concat())
}

/// A field that is anything but a literal authority.
fn other_field() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![Just(0x40u8), Just(0x00), Just(0x10)];
    prop_oneof![
        (1u8..127).prop_map(|index| vec![0x80 | index]),
        (0u8..128).prop_map(|more| vec![0xff, more]),
        (0u8..31).prop_map(|size| vec![0x20 | size]),
        (first.clone(), 2u8..15, string())
            .prop_map(|(first, name, value)| [&[first | name][..], &value].concat()),
        (first, string(), string()).prop_map(|(first, name, value)| [&[first][..], &name, &value].concat()),
    ]
}

/// Headers in one frame or two, padded and with a priority or not.
fn other_headers() -> impl Strategy<Value = Vec<u8>> {
    let block = prop::collection::vec(other_field(), 0..12).prop_map(|fields| fields.concat());
    (block, any::<prop::sample::Index>(), any::<bool>(), prop::option::of(0u8..9), any::<bool>()).prop_map(
        |(block, border, continued, padding, priority)| {
            let border = if continued { border.index(block.len() + 1) } else { block.len() };
            let (start, end) = block.split_at(border);
            let before: Vec<u8> =
                padding.into_iter().chain([0; PRIORITY_LENGTH].into_iter().filter(|_| priority)).collect();
            let after = vec![0; usize::from(padding.unwrap_or(0))];
            let flags = padding.map_or(0, |_| PADDED)
                | if priority { PRIORITY } else { 0 }
                | if continued { 0 } else { END_HEADERS };
            let mut all = frame(HEADERS, flags, &[&before, start, &after]);
            if continued {
                all.extend(frame(CONTINUATION, END_HEADERS, &[end]));
            }
            all
        },
    )
}

/// A frame that is no headers.
fn other_frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = any::<u8>().prop_filter("no headers", |kind| *kind != HEADERS);
    (kind, any::<u8>(), prop::collection::vec(any::<u8>(), 0..60))
        .prop_map(|(kind, flags, payload)| frame(kind, flags, &[&payload]))
}

proptest! {
    #[test]
    fn nothing_changes_without_an_authority(
        frames in prop::collection::vec(prop_oneof![other_headers(), other_frame()], 0..12),
        piece in 1usize..100,
    ) {
        let bytes = connection(&frames);
        prop_assert_eq!(filtered(bytes.chunks(piece)), bytes);
    }

    #[test]
    fn how_the_bytes_are_cut_makes_no_difference(
        frames in prop::collection::vec(
            prop_oneof![
                other_headers(),
                other_frame(),
                prop::collection::vec(any::<u8>(), 0..30),
                Just(frame(HEADERS, END_HEADERS, &[&kubelets()])),
            ],
            0..12,
        ),
        piece in 1usize..100,
    ) {
        let bytes = connection(&frames);
        prop_assert_eq!(filtered(bytes.chunks(piece)), filtered([&bytes[..]]));
    }
}
