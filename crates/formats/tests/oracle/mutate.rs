//! Documents that nobody wrote: seeds cut, joined, bent and sprinkled with the characters that matter in YAML.

/// Pieces that change what a YAML text means.
const PIECES: &[&str] = &[
    ":",
    ": ",
    "- ",
    "-",
    "?",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ",",
    ", ",
    "#",
    " #",
    "&a ",
    "*a",
    "!!str ",
    "!!int ",
    "!",
    "|",
    ">",
    "|2",
    ">-",
    "|+",
    "'",
    "\"",
    "\\",
    "%",
    "@",
    "`",
    "\n",
    "\r\n",
    "\t",
    " ",
    "  ",
    "    ",
    "---\n",
    "...\n",
    "<<: ",
    "<<: *a",
    "~",
    "null",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "0",
    "1",
    "-1",
    "010",
    "0x10",
    "0o7",
    "0b1",
    "1_000",
    "1e3",
    "4.0",
    "1.5",
    ".5",
    "1.",
    "-0",
    "1e400",
    "18446744073709551615",
    "9223372036854775808",
    ".inf",
    ".nan",
    "12:30",
    "2001-12-14",
    "\"\\u00e9\"",
    "\"\\x41\"",
    "é",
    "\u{85}",
    "\u{2028}",
    "\u{a0}",
    "=",
    "all",
    "v1",
    "v2",
    "true",
    "false",
    "\"true\"",
    "a: 1\n",
    "- a\n",
    "[]",
    "{}",
    "\"\"",
    "''",
    "+",
    "_",
    "1g.5gb",
    "\"1g.5gb+me\": 1",
    "replicas: 2",
    "name: gpu",
    "devices: all",
    "\n  ",
    "\n    ",
    "\n- ",
    "\n  - ",
    "\u{1}",
    "plugin: {",
    "flags:\n  ",
    "migStrategy: mixed",
    "MIGSTRATEGY: x",
    "gfd: {sleepInterval: 5s}",
    "sleepInterval: 1h30m0.5s",
    "mig-devices: {}",
    "device-filter: ",
    "[0, \"0:1\"]",
    "GPU-b1028956cfa20990bf4a5da9abb51763",
    "renameByDefault: yes",
    "1e21",
    "null",
];

/// Makes documents, the same ones for the same seed.
#[derive(Debug)]
pub(crate) struct Mutator {
    state: u64,
    seeds: Vec<String>,
}

impl Mutator {
    /// `seed` decides the whole sequence.
    pub(crate) fn new(seed: u64, seeds: Vec<String>) -> Self {
        Mutator { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, seeds }
    }

    fn below(&mut self, bound: usize) -> usize {
        // xorshift64*: small, repeatable, good enough to choose places.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    /// The next document.
    pub(crate) fn next_document(&mut self) -> String {
        let place = self.below(self.seeds.len());
        let mut text = self.seeds[place].clone();
        // Long seeds are cut to a window, so that a change is likely to matter.
        if text.len() > 600 {
            let lines: Vec<&str> = text.lines().collect();
            let from = self.below(lines.len());
            let head = &lines[..lines.len().min(2)];
            let window = &lines[from..lines.len().min(from + 14)];
            text = head.iter().chain(window).map(|line| format!("{line}\n")).collect();
        }
        for _ in 0..=self.below(4) {
            text = self.mutate(&text);
        }
        text
    }

    fn mutate(&mut self, text: &str) -> String {
        let characters: Vec<char> = text.chars().collect();
        let at = self.below(characters.len() + 1);
        let (before, after) = characters.split_at(at);
        let before: String = before.iter().collect();
        let piece = PIECES[self.below(PIECES.len())];
        match self.below(11) {
            0 | 1 => format!("{before}{piece}{}", after.iter().collect::<String>()),
            2 => format!("{before}{}", after.iter().skip(1).collect::<String>()),
            3 => format!("{before}{piece}{}", after.iter().skip(piece.chars().count()).collect::<String>()),
            4 => self.on_lines(text, |lines, one, two| lines.swap(one, two)),
            5 => self.on_lines(text, |lines, one, _| {
                lines.remove(one);
            }),
            6 => self.on_lines(text, |lines, one, two| {
                let line = lines[one].clone();
                lines.insert(two, line);
            }),
            7 => {
                let other = self.below(self.seeds.len());
                let strange: Vec<String> = self.seeds[other].lines().map(str::to_owned).collect();
                let taken = self.below(strange.len());
                self.on_lines(text, |lines, one, _| {
                    lines.insert(one, strange.get(taken).cloned().unwrap_or_default());
                })
            }
            8 | 9 => self.on_lines(text, |lines, one, _| {
                // Another value for a key.
                let key = lines[one].split_once(": ").map_or(lines[one].as_str(), |(key, _)| key);
                lines[one] = format!("{}: {piece}", key.trim_end_matches(':'));
            }),
            _ => {
                let spaces = " ".repeat(self.below(6));
                self.on_lines(text, |lines, one, _| {
                    lines[one] = format!("{spaces}{}", lines[one].trim_start());
                })
            }
        }
    }

    fn on_lines(&mut self, text: &str, change: impl FnOnce(&mut Vec<String>, usize, usize)) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.is_empty() {
            return text.to_owned();
        }
        let (one, two) = (self.below(lines.len()), self.below(lines.len()));
        change(&mut lines, one, two);
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}
