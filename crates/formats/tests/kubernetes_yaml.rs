//! The quirks of Kubernetes' YAML, one by one. What stands on the right was answered by the Go library itself.

use carve_formats::kubernetes_yaml::{LiteralBlock, Node, Position, Value, parse, parse_stream};

/// Name, text, and Go's answer: its JSON or its refusal.
type Case = (&'static str, &'static str, Result<&'static str, &'static str>);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("yes forms", "a: [y, Y, yes, Yes, YES, yEs, on, On, ON, true, True, TRUE]", Ok("{\"a\":[true,true,true,true,true,\"yEs\",true,true,true,true,true,true]}")),
    ("no forms", "a: [n, N, no, No, NO, nO, off, Off, OFF, false, False, FALSE]", Ok("{\"a\":[false,false,false,false,false,\"nO\",false,false,false,false,false,false]}")),
    ("quoted words stay texts", "a: [\"yes\", 'no', \"1\", '~', \"null\"]", Ok("{\"a\":[\"yes\",\"no\",\"1\",\"~\",\"null\"]}")),
    ("nothings", "a: [~, null, Null, NULL, nUll, '']\nb:", Ok("{\"a\":[null,null,null,null,\"nUll\",\"\"],\"b\":null}")),
    ("octal", "a: [010, 0o10, 08, 0O7, 00]", Ok("{\"a\":[8,8,8,7,0]}")),
    ("hexadecimal", "a: [0x10, 0XfF, -0x10, 0x, 0xg]", Ok("{\"a\":[16,255,-16,\"0x\",\"0xg\"]}")),
    ("binary", "a: [0b101, -0b1, 0b2, 0b-1]", Ok("{\"a\":[5,-1,\"0b2\",-1]}")),
    ("underscores", "a: [1_000, _1, 1__0, 0x_10, 1_000.5, .1_0, ._1]", Ok("{\"a\":[1000,\"_1\",10,16,1000.5,0.1,\"._1\"]}")),
    ("sexagesimal is a text", "a: [12:30, 1:30:00, 190:20:30]", Ok("{\"a\":[\"12:30\",\"1:30:00\",\"190:20:30\"]}")),
    ("dates are texts", "a: [2001-12-14, 2001-12-14t21:59:43.10-05:00, 2001-12-14 21:59:43.10]", Ok("{\"a\":[\"2001-12-14\",\"2001-12-14t21:59:43.10-05:00\",\"2001-12-14 21:59:43.10\"]}")),
    ("floats", "a: [1.5, .5, 1., 1e3, 1E+3, 1e-7, -0.0, 1.e5, e5, .e5]", Ok("{\"a\":[1.5,0.5,1,1000,1000,1e-7,-0,100000,\"e5\",\".e5\"]}")),
    ("whole floats lose their point", "a: [4.0, 1e20, 1e21, 123456789012345680000.0]", Ok("{\"a\":[4,100000000000000000000,1e+21,123456789012345680000]}")),
    ("too large for a float is a text", "a: 1e400", Ok("{\"a\":\"1e400\"}")),
    ("too small is zero", "a: 1e-400", Ok("{\"a\":0}")),
    ("integers at the edge", "a: [9223372036854775807, -9223372036854775808, 9223372036854775808, 18446744073709551615]", Ok("{\"a\":[9223372036854775807,-9223372036854775808,9223372036854775808,18446744073709551615]}")),
    ("beyond 64 bits", "a: [18446744073709551616, -9223372036854775809]", Ok("{\"a\":[18446744073709552000,-9223372036854776000]}")),
    ("a plus sign", "a: [+1, +0x10, +.5, +1.5, +9223372036854775808]", Ok("{\"a\":[1,16,0.5,1.5,9223372036854776000]}")),
    ("infinity", "a: .inf", Err("json: unsupported value: +Inf")),
    ("not a number", "a: .NaN", Err("json: unsupported value: NaN")),
    ("infinite keys", ".inf: 1\n-.inf: 2\n.nan: 3", Ok("{\"-.inf\":2,\".inf\":1,\".nan\":3}")),
    ("keys become texts", "yes: 1\n2: 2\n3.50: 3\n0x10: 4\n1e6: 5\n1e3: 6", Ok("{\"1000\":6,\"16\":4,\"1e+06\":5,\"2\":2,\"3.5\":3,\"true\":1}")),
    ("a null key", "~: 1", Err("unsupported map key of type: %!s(<nil>)")),
    ("a huge key", "18446744073709551615: 1", Err("unsupported map key of type: uint64")),
    ("a list as key", "[a]: 1", Err("yaml: invalid map key: a list or a map")),
    ("a map as key", "{a: 1}: 1", Err("yaml: invalid map key: a list or a map")),
    ("an empty list as key ends the document", "[]: x", Ok("[]")),
    ("the last of two keys wins", "a: 1\na: 2", Ok("{\"a\":2}")),
    ("strings tagged", "a: !!str 1\nb: !!str yes\nc: !!str", Ok("{\"a\":\"1\",\"b\":\"yes\",\"c\":\"\"}")),
    ("integers tagged", "a: !!int \"12\"\nb: !!int 0x10", Ok("{\"a\":12,\"b\":16}")),
    ("a text tagged as integer", "a: !!int x", Err("yaml: cannot decode !!str `x` as a !!int")),
    ("a float tagged as integer", "a: !!int 1.5", Err("yaml: cannot decode !!float `1.5` as a !!int")),
    ("floats tagged", "a: !!float 1\nb: !!float \"2.5\"", Ok("{\"a\":1,\"b\":2.5}")),
    ("a truth value tagged", "a: !!bool \"yes\"", Ok("{\"a\":true}")),
    ("a text tagged as truth value", "a: !!bool maybe", Err("yaml: cannot decode !!str `maybe` as a !!bool")),
    ("null tagged", "a: !!null ''", Ok("{\"a\":null}")),
    ("a text tagged as null", "a: !!null x", Err("yaml: cannot decode !!str `x` as a !!null")),
    ("a date tagged", "a: !!timestamp 2001-12-14", Ok("{\"a\":\"2001-12-14\"}")),
    ("no date tagged as one", "a: !!timestamp tomorrow", Err("yaml: cannot decode !!str `tomorrow` as a !!timestamp")),
    ("binary data", "a: !!binary aGVsbG8=", Ok("{\"a\":\"hello\"}")),
    ("broken binary data", "a: !!binary aGVsb", Err("yaml: !!binary value contains invalid base64 data")),
    ("own tags leave texts", "a: !mine 1\nb: ! 2\nc: !<x> yes", Ok("{\"a\":\"1\",\"b\":\"2\",\"c\":\"yes\"}")),
    ("tags on collections are ignored", "a: !!str [1]\nb: !!map [2]", Ok("{\"a\":[1],\"b\":[2]}")),
    ("an undefined handle", "a: !e!x 1", Err("yaml: found undefined tag handle")),
    ("anchors and aliases", "a: &x {b: 1}\nc: *x", Ok("{\"a\":{\"b\":1},\"c\":{\"b\":1}}")),
    ("an anchor on nothing", "a: &x\nb: *x", Ok("{\"a\":null,\"b\":null}")),
    ("an unknown alias", "a: *x", Err("yaml: unknown anchor 'x' referenced")),
    ("an alias into itself", "a: &x [*x]", Err("yaml: anchor 'x' value contains itself")),
    ("an anchor redefined", "a: &x 1\nb: *x\nc: &x 2\nd: *x", Ok("{\"a\":1,\"b\":1,\"c\":2,\"d\":2}")),
    ("merge", "a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}", Ok("{\"a\":{\"b\":1,\"c\":2},\"d\":{\"b\":3,\"c\":2}}")),
    ("merge behind a key overrides it", "a: &x {b: 1}\nd: {b: 3, <<: *x}", Ok("{\"a\":{\"b\":1},\"d\":{\"b\":1}}")),
    ("merge of a list", "<<: [{a: 1}, {a: 2, b: 3}]", Ok("{\"a\":1,\"b\":3}")),
    ("merge of a text", "<<: x", Err("yaml: map merge requires map or sequence of maps as the value")),
    ("merge of an alias to a list", "a: &x [1]\nb: {<<: *x}", Err("yaml: map merge requires map or sequence of maps as the value")),
    ("a quoted merge key is a key", "\"<<\": {a: 1}", Ok("{\"\\u003c\\u003c\":{\"a\":1}}")),
    ("a merge key as value is a text", "a: <<", Ok("{\"a\":\"\\u003c\\u003c\"}")),
    ("literal block", "a: |\n  one\n   two\n\n  three\n\nb: 1", Ok("{\"a\":\"one\\n two\\n\\nthree\\n\",\"b\":1}")),
    ("folded block", "a: >\n  one\n  two\n\n  three\n   four\n  five", Ok("{\"a\":\"one two\\nthree\\n four\\nfive\"}")),
    ("chomping", "a: |-\n  x\n\nb: |+\n  x\n\nc: |\n  x\n\n", Ok("{\"a\":\"x\",\"b\":\"x\\n\\n\",\"c\":\"x\\n\"}")),
    ("indentation indicator", "a: |2\n   x\n  y\nb: >1-\n  z", Ok("{\"a\":\" x\\ny\\n\",\"b\":\" z\"}")),
    ("indicator zero", "a: |0\n  x", Err("yaml: found an indentation indicator equal to 0")),
    ("block with a tab", "a: |\n\tx", Err("yaml: line 2: found a tab character where an indentation space is expected")),
    ("single quotes", "a: 'it''s\n  two\n\n  lines'", Ok("{\"a\":\"it's two\\nlines\"}")),
    ("double quotes", "a: \"tab\\t \\x41 \\u00e9 \\U0001F600 \\/\"", Err("yaml: found unknown escape character")),
    ("escapes", "a: \"\\0\\a\\b\\e\\f\\n\\r\\t\\v\\N\\_\\L\\P\\\\\\\"\"", Ok("{\"a\":\"\\u0000\\u0007\\b\\u001b\\f\\n\\r\\t\\u000b\u{85}\u{a0}\\u2028\\u2029\\\\\\\"\"}")),
    ("escaped line break", "a: \"one \\\n   two\"", Ok("{\"a\":\"one two\"}")),
    ("unknown escape", "a: \"\\q\"", Err("yaml: found unknown escape character")),
    ("surrogate escape", "a: \"\\ud83d\\ude00\"", Err("yaml: found invalid Unicode character escape code")),
    ("an open quote", "a: \"x", Err("yaml: found unexpected end of stream")),
    ("plain over lines", "a: one\n  two\n\n  three", Ok("{\"a\":\"one two\\nthree\"}")),
    ("a comment ends a text", "a: one # two\nb: one#two", Ok("{\"a\":\"one\",\"b\":\"one#two\"}")),
    ("a colon inside", "a: http://x:80/\nb: a:b\nc: ::", Err("yaml: line 3: mapping values are not allowed in this context")),
    ("a colon and a space inside", "a: b: c", Err("yaml: mapping values are not allowed in this context")),
    ("a dash inside", "a: - b", Err("yaml: block sequence entries are not allowed in this context")),
    ("flow", "a: [1, [2], {b: 3}, c: 4, ? d, ]", Ok("{\"a\":[1,[2],{\"b\":3},{\"c\":4},{\"d\":null}]}")),
    ("flow map", "{a, b: , ? c, ? d : e, \"f\": 1, \"g\":2, h:3}", Ok("{\"a\":null,\"b\":null,\"c\":null,\"d\":\"e\",\"f\":1,\"g\":2,\"h:3\":null}")),
    ("flow over lines", "a: [1,\n2,\n  # comment\n 3]", Ok("{\"a\":[1,2,3]}")),
    ("open flow list", "version: [v1\n", Err("yaml: line 1: did not find expected ',' or ']'")),
    ("open flow map", "a: {b: 1\n", Err("yaml: line 1: did not find expected ',' or '}'")),
    ("a stray bracket", "a: ]", Err("yaml: did not find expected node content")),
    ("a stray bracket at the end is not seen", "[1] ]", Ok("[1]")),
    ("explicit keys", "? a\n: 1\n? b\n", Ok("{\"a\":1,\"b\":null}")),
    ("indentless list", "a:\n- 1\n-\n- 2\nb: 3", Ok("{\"a\":[1,null,2],\"b\":3}")),
    ("nested lists", "- - 1\n  - 2\n- a: 1\n  b: 2", Ok("[[1,2],{\"a\":1,\"b\":2}]")),
    ("list at the wrong depth", "- a\n - b", Ok("[\"a - b\"]")),
    ("map at the wrong depth", "a:\n  b: 1\n c: 2", Err("yaml: line 2: did not find expected key")),
    ("map under a text", "a: 1\n  b: 2", Err("yaml: line 2: mapping values are not allowed in this context")),
    ("a list item in a map", "a: 1\n- b", Err("yaml: line 1: did not find expected key")),
    ("a tab before a key", "\ta: 1", Err("yaml: found character that cannot start any token")),
    ("a tab after a key", "a:\t1", Ok("{\"a\":1}")),
    ("a tab inside flow", "a: [1,\n\t2]", Ok("{\"a\":[1,2]}")),
    ("nothing", "", Ok("null")),
    ("only a comment", "# nothing", Ok("null")),
    ("only a marker", "---", Ok("null")),
    ("an end marker first", "...", Err("yaml: did not find expected node content")),
    ("the first document counts", "a: 1\n---\nb: [", Ok("{\"a\":1}")),
    ("behind the end marker nothing counts", "a: 1\n...\n]]]", Ok("{\"a\":1}")),
    ("directive", "%YAML 1.1\n---\na: 1", Ok("{\"a\":1}")),
    ("newer directive", "%YAML 1.2\n---\na: 1", Err("yaml: found incompatible YAML document")),
    ("unknown directive", "%FOO bar\n---\na: 1", Err("yaml: found unknown directive name")),
    ("tag directive", "%TAG !e! tag:yaml.org,2002:\n---\na: !e!str 1", Ok("{\"a\":\"1\"}")),
    ("reserved characters", "a: @b", Err("yaml: found character that cannot start any token")),
    ("a backtick", "a: `b", Err("yaml: found character that cannot start any token")),
    ("a percent sign", "a: %b", Err("yaml: found character that cannot start any token")),
    ("carriage returns", "a: 1\r\nb: |\r\n  x\r\n  y\r\n", Ok("{\"a\":1,\"b\":\"x\\ny\\n\"}")),
    ("a byte order mark", "\u{feff}a: 1", Ok("{\"a\":1}")),
    ("a control character", "a: \u{1}", Err("yaml: control characters are not allowed")),
    ("a line separator", "a: \"x\u{2028}y\"", Ok("{\"a\":\"x\\u2028y\"}")),
    ("next line is a break", "a: 1\u{85}b: 2", Ok("{\"a\":1,\"b\":2}")),
    ("html is hidden in json", "a: <b>&</b>", Ok("{\"a\":\"\\u003cb\\u003e\\u0026\\u003c/b\\u003e\"}")),
];

#[test]
fn every_quirk_is_as_in_go() {
    for (name, text, expected) in CASES {
        let ours = parse(text).map(|node| node.to_json());
        let ours = ours.as_deref().map_err(|error| error.upstream.as_deref().unwrap_or("(ours only)"));
        assert_eq!(ours, *expected, "{name}: {text:?}");
    }
}

#[test]
fn a_key_ends_on_its_line_and_within_1024_characters() {
    let key = |length: usize| format!("{}: 1\n", "k".repeat(length));
    assert!(parse(&key(1024)).is_ok());
    let error = parse(&key(1025)).expect_err("too long");
    assert_eq!(error.upstream.as_deref(), Some("yaml: mapping values are not allowed in this context"));
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(127)).is_ok());
    let error = parse(&nested(100_000)).expect_err("too deep");
    assert!(error.problem.contains("nested deeper"), "{error}");
    let blocks: String = (0..3000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(parse(&blocks).expect_err("too deep").problem.contains("nested deeper"));
    let dashes = "- ".repeat(100_000);
    assert!(parse(&dashes).expect_err("too deep").problem.contains("nested deeper"));
    let pairs = "[a: ".repeat(100_000);
    assert!(parse(&pairs).expect_err("too deep").problem.contains("nested deeper"));
}

#[test]
fn an_alias_bomb_is_refused_as_go_refuses_it() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let item = format!("*a{}", level - 1);
        let items = [item.as_str(); 9].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let error = parse(&text).expect_err("a bomb");
    assert_eq!(error.upstream.as_deref(), Some("yaml: document contains excessive aliasing"));
    let chain: String = (1..500).map(|level| format!("a{level}: &a{level} [*a{}]\n", level - 1)).collect();
    let error = parse(&format!("a0: &a0 1\n{chain}")).expect_err("deep through aliases");
    assert!(error.problem.contains("nested deeper"), "{error}");
}

fn at<'a>(node: &'a Node, path: &[&str]) -> &'a Node {
    path.iter().fold(node, |node, key| match &node.value {
        Value::Mapping(mapping) => mapping.get(key).expect("the key is there"),
        other => panic!("no map: {other:?}"),
    })
}

#[test]
fn positions_count_lines_and_characters_from_one() {
    let node = parse("é: 1\nb:\n  c: [x, y]\n  d: |\n    text\n").expect("yaml");
    assert_eq!(at(&node, &["é"]).at, Position { line: 1, column: 4 });
    assert_eq!(at(&node, &["b"]).at, Position { line: 3, column: 3 });
    assert_eq!(at(&node, &["b", "c"]).at, Position { line: 3, column: 6 });
    let literal = at(&node, &["b", "d"]).literal;
    assert_eq!(literal, Some(LiteralBlock { first_line: 5, indent: 4 }));
}

#[test]
fn repeated_keys_are_remembered_and_merged_ones_are_not() {
    let node = parse("a: 1\nb: 2\na: 3\n").expect("yaml");
    let Value::Mapping(mapping) = &node.value else { panic!("a map") };
    assert_eq!(mapping.repeated().iter().map(|key| key.at.line).collect::<Vec<_>>(), [3]);
    let node = parse("<<: {a: 1}\n<<: {a: 2}\n").expect("yaml");
    let Value::Mapping(mapping) = &node.value else { panic!("a map") };
    assert!(mapping.repeated().is_empty());
}

#[test]
fn a_stream_gives_its_documents_up_to_the_broken_one() {
    let (nodes, error) = parse_stream("a: 1\n---\nb: 2\n...\n---\nc: [\n");
    assert_eq!(nodes.iter().map(Node::to_json).collect::<Vec<_>>(), [r#"{"a":1}"#, r#"{"b":2}"#]);
    assert_eq!(error.map(|error| error.at.line), Some(7));
    assert_eq!(nodes.last().map(|node| node.at.line), Some(3));
}
