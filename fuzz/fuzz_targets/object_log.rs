//! Whatever is in a log of objects: it is read up to its last whole line, or the line that is wrong is named; no whole line is lost without a word, nor two whose mark between them is another byte.
#![no_main]

use carve_object_store::{LogContent, OpenError, read_log};

/// Whether a line alone is a whole change.
fn is_whole(line: &[u8]) -> bool {
    read_log(line).is_ok_and(|log| log.whole == line.len() as u64)
}

/// Whether two whole changes stand in a line, with one other byte between them than the mark of an end.
fn is_two(line: &[u8]) -> bool {
    let mut first = Vec::with_capacity(line.len());
    line.iter().enumerate().any(|(end, byte)| {
        first.push(b'\n');
        let two = is_whole(&first) && is_whole(&line[end + 1..]);
        first[end] = *byte;
        two
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    match read_log(bytes) {
        Ok(LogContent { changes, whole, .. }) => {
            let first = lines.iter().take_while(|line| is_whole(line)).count();
            assert_eq!(lines[..first].iter().map(|line| line.len() as u64).sum::<u64>(), whole);
            assert!(changes.len() <= first);
            assert!(lines[first..].iter().all(|line| !is_whole(line)));
        }
        Err(OpenError::Damaged { line, .. }) => {
            assert!(!is_whole(lines[line - 1]) && lines[..line - 1].iter().all(|line| is_whole(line)));
            assert!(lines[line..].iter().any(|line| is_whole(line)) || is_two(lines[line - 1]));
        }
        Err(other) => panic!("{other}"),
    }
});
