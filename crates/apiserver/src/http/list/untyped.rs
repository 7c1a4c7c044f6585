//! How does an item of a list lose its type?
//!
//! The list says once what its items are; items of built-in kinds carry neither `apiVersion` nor
//! `kind`. Stored objects do, so the two members are cut out of the bytes. They stand near the
//! front, and nothing behind the second one is looked at.

/// The object without `apiVersion` and `kind`, in up to three pieces. Text that is not an object
/// of that form comes back whole.
pub(super) fn pieces(json: &[u8]) -> [&[u8]; 3] {
    cut(json).unwrap_or([json, &[], &[]])
}

fn cut(json: &[u8]) -> Option<[&[u8]; 3]> {
    let mut at = 1;
    let mut cuts: Vec<(usize, usize)> = Vec::with_capacity(2);
    while cuts.len() < 2 {
        let start = at;
        let key_end = end_of_string(json, start)?;
        let value = key_end + 1;
        let end = end_of_value(json, value)?;
        // A member that is cut must have a neighbour, whose comma goes with it.
        if *json.get(end)? != b',' {
            return None;
        }
        if matches!(json.get(start..key_end)?, b"\"apiVersion\"" | b"\"kind\"") {
            cuts.push((start, end + 1));
        }
        at = end + 1;
    }
    let [(a, b), (c, d)] = cuts[..] else { return None };
    Some([json.get(..a)?, json.get(b..c)?, json.get(d..)?])
}

/// The position after the string that starts here.
fn end_of_string(json: &[u8], start: usize) -> Option<usize> {
    if *json.get(start)? != b'"' {
        return None;
    }
    let mut at = start + 1;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The position after the value that starts here.
fn end_of_value(json: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut depth = 0usize;
    loop {
        match json.get(at)? {
            b'"' => at = end_of_string(json, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' if depth == 0 => return Some(at),
            _ => at += 1,
        }
        if depth == 0 && matches!(json.get(at), Some(b',' | b'}' | b']') | None) {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn joined(json: &[u8]) -> Vec<u8> {
        pieces(json).concat()
    }

    #[test]
    fn only_the_types_are_cut() {
        let cases = [
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"kind": "x"}}),
                json!({"metadata": {"kind": "x"}}),
            ),
            (
                json!({"action": "a\"}", "apiVersion": "v1", "data": {"kind": ["}", "\\"]}, "kind": "E", "z": 1}),
                json!({"action": "a\"}", "data": {"kind": ["}", "\\"]}, "z": 1}),
            ),
            (
                json!({"aggregationRule": null, "apiVersion": "v1", "kind": "E", "metadata": {}}),
                json!({"aggregationRule": null, "metadata": {}}),
            ),
        ];
        for (object, want) in cases {
            let got = joined(object.to_string().as_bytes());
            assert_eq!(serde_json::from_slice::<Value>(&got).unwrap(), want);
        }
        for whole in ["{}", "[]", "", "{\"kind\":\"x\"}", "{\"apiVersion\":1,\"kind\":2}", "{\"a\""]
        {
            assert_eq!(joined(whole.as_bytes()), whole.as_bytes(), "{whole}");
        }
    }

    proptest! {
        #[test]
        fn cutting_equals_removing(
            before in proptest::collection::btree_map("[a-j]", "\\PC{0,8}", 0..4),
            nested in proptest::collection::vec("\\PC{0,8}", 0..4),
        ) {
            let mut object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"list": nested}});
            for (key, value) in before {
                object[key] = json!({"kind": value, "list": [value]});
            }
            let got = joined(object.to_string().as_bytes());
            let fields = object.as_object_mut().unwrap();
            fields.remove("apiVersion");
            fields.remove("kind");
            prop_assert_eq!(serde_json::from_slice::<Value>(&got).unwrap(), object);
        }

        #[test]
        fn no_text_panics(text in "[{}\\[\\],:\"a\\\\]{0,24}") {
            let _ = pieces(text.as_bytes());
        }
    }
}
