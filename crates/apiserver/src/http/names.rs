//! Which names does Kubernetes accept?
//!
//! Each function returns the complaints about a text, worded as `apimachinery` words them because
//! they end up in 422 answers; an empty list means the name is fine.

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
     characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
     or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
     alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
     (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters \
     or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
     'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
     '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn lower_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

fn mixed_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

/// Namespaces and other single DNS labels.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !lower_label(text) {
        wrong.push(LABEL_RULE.to_owned());
    }
    wrong
}

/// Services: a label that starts with a letter.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !lower_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(DNS_1035_RULE.to_owned());
    }
    wrong
}

/// Most object names: dotted DNS labels.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if !text.split('.').all(lower_label) {
        wrong.push(SUBDOMAIN_RULE.to_owned());
    }
    wrong
}

/// RBAC names: anything that fits into one path segment.
pub fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => return vec![format!("may not be '{text}'")],
        _ => {}
    }
    ['/', '%']
        .iter()
        .filter(|c| text.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// Label and annotation keys: `name` or `prefix/name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!("a qualified name {}", rest_of_qualified_rule())];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(
                    dns_subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_long(63)));
    }
    if !mixed_name(name) {
        wrong.push(QUALIFIED_RULE.to_owned());
    }
    wrong
}

fn rest_of_qualified_rule() -> String {
    format!(
        "{} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        QUALIFIED_RULE.trim_start_matches("name part ")
    )
}

pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !text.is_empty() && !mixed_name(text) {
        wrong.push(VALUE_RULE.to_owned());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_rejected_neighbours() {
        type Rule = fn(&str) -> Vec<String>;
        let cases: [(&str, Rule, &str, &str); 10] = [
            ("label", dns_label, "a-1", "a_1"),
            ("label start", dns_label, "1a", "-a"),
            ("label dot", dns_label, "ab", "a.b"),
            ("service start", dns_1035_label, "a1", "1a"),
            ("subdomain", dns_subdomain, "a.b-c.d", "a..d"),
            ("subdomain case", dns_subdomain, "abc", "Abc"),
            ("segment", path_segment, "system:node", "a/b"),
            ("key", qualified_name, "example.com/My_Name", "example.com/"),
            ("key parts", qualified_name, "a/b", "a/b/c"),
            ("value", label_value, "", "-"),
        ];
        for (name, rule, good, bad) in cases {
            assert_eq!(rule(good), Vec::<String>::new(), "{name}: {good}");
            assert_ne!(rule(bad), Vec::<String>::new(), "{name}: {bad}");
        }
        assert_eq!(dns_label(&"a".repeat(64)).len(), 1);
    }
}
