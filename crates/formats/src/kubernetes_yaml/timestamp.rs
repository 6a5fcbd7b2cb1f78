//! Which texts the YAML library takes for a date or a time. It keeps them as texts, but an explicit tag asks for one.

/// Whether the text is `Y-M-D`, with or without a time behind it.
pub(super) fn is_timestamp(text: &str) -> bool {
    let mut reader = Reader { rest: text };
    if reader.digits(4, 4).is_none() {
        return false;
    }
    let Some((year, month, day)) = reader.date_behind_year(text) else { return false };
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return false;
    }
    if reader.rest.is_empty() {
        return true;
    }
    let spaced = reader.rest.starts_with(' ');
    if !spaced && !reader.rest.starts_with(['T', 't']) {
        return false;
    }
    reader.rest = if spaced { reader.rest.trim_start_matches(' ') } else { skip(reader.rest, 1) };
    if reader.time().is_none() {
        return false;
    }
    if spaced { reader.rest.is_empty() } else { reader.zone() }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn digits(&mut self, least: usize, most: usize) -> Option<u32> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return None;
        }
        let value = self.rest.get(..count)?.parse().ok()?;
        self.rest = skip(self.rest, count);
        Some(value)
    }

    fn expect(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }

    fn date_behind_year(&mut self, text: &str) -> Option<(u32, u32, u32)> {
        let year = text.get(..4)?.parse().ok()?;
        self.expect('-')?;
        let month = self.digits(1, 2)?;
        self.expect('-')?;
        let day = self.digits(1, 2)?;
        Some((year, month, day))
    }

    fn time(&mut self) -> Option<()> {
        let hour = self.digits(1, 2)?;
        self.expect(':')?;
        let minute = self.digits(1, 2)?;
        self.expect(':')?;
        let second = self.digits(1, 2)?;
        if let Some(fraction) = self.rest.strip_prefix(['.', ','])
            && fraction.starts_with(|c: char| c.is_ascii_digit())
        {
            self.rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        }
        (hour < 24 && minute < 60 && second < 60).then_some(())
    }

    fn zone(&mut self) -> bool {
        if self.rest == "Z" {
            return true;
        }
        let Some(rest) = self.rest.strip_prefix(['+', '-']) else { return false };
        self.rest = rest;
        let (Some(hour), Some(()), Some(minute)) = (self.digits(2, 2), self.expect(':'), self.digits(2, 2))
        else {
            return false;
        };
        self.rest.is_empty() && hour <= 24 && minute < 60
    }
}

fn skip(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or_default()
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
