//! Objects that are almost right: manifests that somebody has broken in one place or in several, always the same for one seed.

use serde_json::{Map, Value, json};

/// Numbers that depend on the seed alone.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Begins anew.
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        (self.roll() % most.max(1) as u64) as usize
    }

    /// One of several; they must not be none.
    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A value that hardly anybody expects.
pub fn odd(dice: &mut Dice) -> Value {
    match dice.below(24) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(i64::MAX),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!(1e308),
        7 => json!(0.5),
        8 => json!(""),
        9 => json!("x".repeat(70_000)),
        10 => json!("ü \u{0}\u{202e} /../%00"),
        11 => json!([]),
        12 => json!({}),
        13 => json!([null, {"a": []}]),
        14 => json!({"": {"": ""}}),
        15 => nested(dice.below(140)),
        16 => json!("9223372036854775807"),
        17 => json!("1e300"),
        18 => json!("-5Gi"),
        19 => json!(2_147_483_648_i64),
        20 => json!("2026-13-45T99:99:99Z"),
        21 => json!("9999-12-31T23:59:59Z"),
        22 => json!({"$patch": "delete", "$retainKeys": 5, "$setElementOrder/containers": "x"}),
        _ => json!("all-1g.5gb"),
    }
}

/// So many lists and objects in each other.
pub fn nested(levels: usize) -> Value {
    (0..levels)
        .fold(json!(1), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"a": inner}) })
}

/// Every place in a value, as JSON pointers have it; the whole is one, too.
pub fn places(value: &Value) -> Vec<String> {
    fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Object(fields) => {
                for (field, inner) in fields {
                    let field = field.replace('~', "~0").replace('/', "~1");
                    collect(inner, &format!("{at}/{field}"), found);
                }
            }
            Value::Array(entries) => {
                for (number, inner) in entries.iter().enumerate() {
                    collect(inner, &format!("{at}/{number}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(value, "", &mut found);
    found
}

/// Breaks a value in one place: something else stands there, is gone, is there twice or under another name.
pub fn mangle(value: &mut Value, dice: &mut Dice) {
    let places = places(value);
    let place = dice.one_of(&places).clone();
    let Some(found) = value.pointer_mut(&place) else { return };
    match (dice.below(6), found) {
        (0, Value::Object(fields)) => drop_one(fields, dice),
        (1, Value::Object(fields)) => drop(fields.insert("nobodyKnowsThis".to_owned(), odd(dice))),
        (2, Value::Object(fields)) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            if !names.is_empty() {
                let inner = fields.remove(dice.one_of(&names)).unwrap_or_default();
                fields.insert(dice.one_of(&names).to_uppercase(), inner);
            }
        }
        (0..3, Value::Array(entries)) => {
            if let Some(last) = entries.last().cloned() {
                entries.push(last);
            }
        }
        (_, found) => *found = odd(dice),
    }
}

fn drop_one(fields: &mut Map<String, Value>, dice: &mut Dice) {
    let names: Vec<String> = fields.keys().cloned().collect();
    if !names.is_empty() {
        fields.remove(dice.one_of(&names));
    }
}
