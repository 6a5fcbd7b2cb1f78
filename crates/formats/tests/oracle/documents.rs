//! Where the hunt begins: fixtures, and small texts that each hold a corner of YAML.

use carve_test_support::fixtures;

/// Texts of all fixture files in a folder.
fn folder(relative: &str) -> Vec<String> {
    let Some(path) = fixtures(relative) else { return Vec::new() };
    let mut files: Vec<_> = std::fs::read_dir(path).expect("fixtures are readable").flatten().collect();
    files.sort_by_key(|entry| entry.path());
    files.iter().filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect()
}

/// The `yaml` fields of a JSON file of cases.
fn cases(relative: &str) -> Vec<String> {
    let Some(path) = fixtures(relative) else { return Vec::new() };
    let text = std::fs::read_to_string(path).expect("fixtures are readable");
    let cases: serde_json::Value = serde_json::from_str(&text).expect("fixtures are JSON");
    let list = cases.as_array().or_else(|| cases["cases"].as_array()).expect("a list of cases");
    list.iter().filter_map(|case| case["yaml"].as_str()).map(str::to_owned).collect()
}

/// Documents that are or resemble mig-parted configs.
pub(crate) fn mig_parted() -> Vec<String> {
    [cases("mig/golden/parse-battery.json"), folder("mig/upstream")].concat()
}

/// Documents that are or resemble device-plugin configs.
pub(crate) fn device_plugin() -> Vec<String> {
    let full = include_str!("full-device-plugin.yaml").to_owned();
    [
        cases("device-plugin/golden-config-errors/config-cases.json"),
        folder("device-plugin/configs"),
        vec![full],
    ]
    .concat()
}

/// Documents that are or resemble hooks files.
pub(crate) fn mig_hooks() -> Vec<String> {
    let odd = "version: 1\nhooks:\n  apply-start:\n  - command: 5\n    args: [1, yes, 1e6, null]\n    envs: {A: 010}\n";
    [folder("mig/upstream"), vec![odd.to_owned()]].concat()
}

/// Corners of YAML.
pub(crate) fn yaml() -> Vec<String> {
    let corners = [
        "",
        " ",
        "\n",
        "# only\n",
        "---\n",
        "...\n",
        "--- a\n--- b\n",
        "a: 1\n---\nb: [\n",
        "\u{feff}a: 1\n",
        "a: 1\r\nb: 2\r\n",
        "a: yes\nb: No\nc: on\nd: OFF\ne: y\nf: N\n",
        "yes: 1\nno: 2\n1: 3\n1.5: 4\n~: 5\n",
        "yes: 1\nno: 2\n1: 3\n1.5: 4\n",
        "a: 010\nb: 0x1F\nc: 0o17\nd: 0b101\ne: 1_000\nf: 08\ng: 1e3\nh: 4.0\n",
        "a: 12:30:45\nb: 2001-12-14\nc: 2001-12-14t21:59:43.10-05:00\n",
        "a: .inf\n",
        "a: .nan\n",
        ".inf: 1\n.nan: 2\n",
        "a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n",
        "a: &x [1, 2]\nb: {<<: *x}\n",
        "a: &x {b: *x}\n",
        "a: *nope\n",
        "a: 1\na: 2\n",
        "base: &b {x: 1, y: 2}\nd:\n  x: 9\n  <<: *b\n  y: 3\n",
        "<<: {a: 1}\na: 2\n",
        "<<: [{a: 1}, {a: 2, b: 3}]\n",
        "a: !!str 1\nb: !!int \"2\"\nc: !!float 3\nd: !!binary aGVsbG8=\ne: !x y\n",
        "a: !!int x\n",
        "a: !!timestamp 2001-12-14\n",
        "a: !!timestamp x\n",
        "a: !!binary '=='\n",
        "a: !!null ''\n",
        "a: |\n  one\n  two\nb: >\n  one\n  two\n\n  three\nc: |-\n  x\nd: |+\n  y\n\n",
        "a: |2\n   x\n  y\n",
        "a: 'it''s'\nb: \"tab\\t\\u00e9\\x41 \\\n  joined\"\n",
        "a: \"two\n  lines\n\n  more\"\n",
        "a: plain\n  over\n  lines\n",
        "? a\n: b\n? [x]\n: y\n",
        "? a\n: b\n? c\n",
        "[a, b: c, ? d, e: ]",
        "{a, b: c, ? d : e, \"f\":g}",
        "[]: x\n",
        "a: []\n",
        "a: {}\n",
        "- - a\n  - b\n-\n- c: d\n  e: f\n",
        "a:\n- b\n- c\nd:\n  - e\n",
        "a:\tb\n",
        "\ta: b\n",
        "a: b\n\tc: d\n",
        "a: [1,\n\t2]\n",
        "a: b: c\n",
        "a: - b\n",
        "- a\nb: c\n",
        "a: @x\n",
        "a: `x\n",
        "a: %x\n",
        "%YAML 1.1\n---\na: 1\n",
        "%YAML 1.2\n---\na: 1\n",
        "%TAG ! tag:x,2000:\n---\na: !y z\n",
        "%FOO\n---\na\n",
        "a: 'x",
        "a: \"x",
        "a: \"\\q\"",
        "a: [1, 2",
        "a: {b: 1",
        "a: ]",
        "a: 1 # c\nb: x#y\n",
        "#\na: 1\n#\n",
        "a:b\n",
        "a: !\nb: ! 12\n",
        "&a a: &b b\n*a : *b\n",
        "a: <<\n",
        "\"<<\": {x: 1}\n",
        "a: 18446744073709551615\n",
        "18446744073709551615: 1\n",
        "a: 9223372036854775808\nb: -9223372036854775808\nc: 1e400\nd: 1e-400\n",
        "a: 1e21\nb: 1e-7\nc: 123456789.5\nd: 0.1\ne: -0.0\nf: 100000000000000000000\n",
        "1e21: a\n1000000.0: b\n0.1: c\n",
        "[a]: 1\n",
        "{a: 1}: 2\n",
        "a: \"\\0\\a\\e\\N\\_\\L\\P\"\n",
        "a: \u{7f}\n",
        "a: b\n---\nc: \u{1}\n",
        "x: <a&b>\n",
        "key with spaces: v\n? long key\n: v\n",
        "a:\n  b:\n c: d\n",
        "a: 1\n  b: 2\n",
        "- a\n - b\n",
        "a: |\n\tx\n",
    ];
    corners.iter().map(|text| (*text).to_owned()).chain(mig_parted()).chain(device_plugin()).collect()
}
