//! Finds `:authority` in a block of compressed headers, without decompressing them.
//!
//! Every field tells its own length, so those of no interest are stepped over, Huffman-coded or not.

/// What the authority becomes.
const LOCALHOST: &[u8] = b"localhost";
/// Where the static table names `:authority`.
const AUTHORITY: usize = 1;

/// The block with its authority replaced; nothing when there is none to replace or the block makes no sense.
///
/// The field stays a literal of the same kind, so a peer that remembers it finds `localhost` under the same number later.
/// A value shorter than ours is left alone: ours would take more room in the server's table than the peer accounts for,
/// and the numbers would part. An escaped path of a socket is never that short.
pub(super) fn with_local_authority(block: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while at < block.len() {
        let name = match block[at] {
            // A field both sides know, or a new size of the table: a number and nothing else.
            0x80.. => {
                at += number(&block[at..], 7)?.1;
                continue;
            }
            0x20..=0x3f => {
                at += number(&block[at..], 5)?.1;
                continue;
            }
            // To be remembered, or not (and perhaps never).
            0x40..=0x7f => number(&block[at..], 6)?,
            0x00..=0x1f => number(&block[at..], 4)?,
        };
        at += name.1;
        if name.0 == 0 {
            at += string(block.get(at..)?)?.len();
        }
        let value = string(block.get(at..)?)?;
        if name.0 == AUTHORITY && is_to_be_replaced(value) {
            replaced.extend_from_slice(&block[copied..at]);
            replaced.push(LOCALHOST.len() as u8);
            replaced.extend_from_slice(LOCALHOST);
            copied = at + value.len();
        }
        at += value.len();
    }
    (copied > 0).then(|| {
        replaced.extend_from_slice(&block[copied..]);
        replaced
    })
}

/// Whether a value, with its length before it, is long enough and not ours already.
fn is_to_be_replaced(value: &[u8]) -> bool {
    value.len() > LOCALHOST.len() && &value[1..] != LOCALHOST
}

/// A string with the length before it.
fn string(bytes: &[u8]) -> Option<&[u8]> {
    let (length, digits) = number(bytes, 7)?;
    bytes.get(..digits.checked_add(length)?)
}

/// A number in the low bits of the first byte and perhaps some more, and how many bytes it takes (RFC 7541 §5.1).
fn number(bytes: &[u8], bits: u32) -> Option<(usize, usize)> {
    let full = (1 << bits) - 1;
    let mut value = usize::from(*bytes.first()?) & full;
    if value < full {
        return Some((value, 1));
    }
    // No length worth reading takes more than five bytes; a longer one is left to the server to refuse.
    for (place, byte) in bytes[1..].iter().take(5).enumerate() {
        value = value.checked_add(usize::from(byte & 0x7f) << (7 * place))?;
        if byte & 0x80 == 0 {
            return Some((value, place + 2));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{number, with_local_authority};

    const PATH: &[u8] = b"%2Fvar%2Flib%2Fa.sock";

    fn literal(first: u8, value: &[u8]) -> Vec<u8> {
        [&[first, value.len() as u8], value].concat()
    }

    #[test]
    fn numbers_of_every_prefix_are_the_ones_of_the_rfc() {
        assert_eq!(number(&[0b010_01010], 5), Some((10, 1)));
        assert_eq!(number(&[0b111_11111, 0b1001_1010, 0b0000_1010], 5), Some((1337, 3)));
        assert_eq!(number(&[42], 8), Some((42, 1)));
        for bits in [4, 5, 6, 7] {
            let full = (1 << bits) - 1;
            assert_eq!(number(&[full as u8 - 1, 9], bits), Some((full - 1, 1)));
            assert_eq!(number(&[full as u8, 0], bits), Some((full, 2)));
            assert_eq!(number(&[full as u8, 0x80, 1], bits), Some((full + 128, 3)));
            assert_eq!(number(&[full as u8, 0x80], bits), None, "the rest is missing");
        }
        assert_eq!(number(&[], 7), None);
        assert_eq!(number(&[0xff; 32], 7), None, "no end");
    }

    #[test]
    fn every_kind_of_literal_is_replaced_and_keeps_its_kind() {
        for first in [0x41, 0x01, 0x11] {
            let replaced = with_local_authority(&literal(first, PATH));
            assert_eq!(replaced, Some(literal(first, b"localhost")), "{first:#x}");
        }
    }

    #[test]
    fn a_huffman_coded_value_is_replaced_unread() {
        let block = [&[0x41, 0x80 | 12][..], &[0xa5; 12]].concat();
        assert_eq!(with_local_authority(&block), Some(literal(0x41, b"localhost")));
    }

    #[test]
    fn what_stands_around_it_stays() {
        let named = [&[0x40, 2][..], b"te", &[0x80 | 3], &[1, 2, 3]].concat();
        let before = [&[0x83, 0x86, 0x3f, 0xe1, 0x1f][..], &named, &literal(0x44, b"/a/b")].concat();
        let after = [&literal(0x5f, b"application/grpc")[..], &[0x0f, 0x10, 1, b'x', 0xff, 0x00]].concat();
        let block = |value: &[u8]| [&before[..], &literal(0x41, value), &after].concat();
        assert_eq!(with_local_authority(&block(PATH)), Some(block(b"localhost")));
    }

    #[test]
    fn short_or_right_values_other_names_and_nonsense_stay() {
        assert_eq!(with_local_authority(&literal(0x41, b"a.b")), None);
        assert_eq!(with_local_authority(&literal(0x41, b"localhost")), None);
        assert_eq!(with_local_authority(&literal(0x42, PATH)), None);
        assert_eq!(with_local_authority(&[]), None);
        let whole = literal(0x41, PATH);
        for end in 1..whole.len() {
            assert_eq!(with_local_authority(&whole[..end]), None, "cut after {end}");
        }
    }
}
