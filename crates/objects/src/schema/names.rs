//! Names, label keys and values: the character rules Kubernetes applies everywhere.
//!
//! Each function returns what is wrong in the reference's words; an empty list means the text is fine.

const LABEL_LIMIT: usize = 63;
const SUBDOMAIN_LIMIT: usize = 253;

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
    or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
    used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
    regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
    start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
    'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
    regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED_RULE: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
    regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS \
    subdomain prefix and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  \
    or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or \
    '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME_RULE: &str = "a valid environment variable name must consist only of printable ASCII \
    characters other than '='";

/// Findings about a text, in the order the reference reports them.
pub(super) type Findings = Vec<String>;

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// Lower case letters, digits and dashes, no dash at the ends.
fn is_label_text(text: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

fn is_subdomain_text(text: &str) -> bool {
    text.split('.').all(is_label_text)
}

/// Letters, digits, dashes, underscores and dots, alphanumeric at the ends.
fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// RFC 1123 label.
pub(super) fn dns_label(text: &str) -> Findings {
    let mut findings = Findings::new();
    if text.len() > LABEL_LIMIT {
        findings.push(too_long(LABEL_LIMIT));
    }
    if !is_label_text(text) {
        let dotted = is_subdomain_text(text);
        findings.push(if dotted {
            "must not contain dots".to_owned()
        } else {
            LABEL_RULE.to_owned()
        });
    }
    findings
}

/// RFC 1123 subdomain.
pub fn dns_subdomain(text: &str) -> Findings {
    let mut findings = Findings::new();
    if text.len() > SUBDOMAIN_LIMIT {
        findings.push(too_long(SUBDOMAIN_LIMIT));
    }
    if !is_subdomain_text(text) {
        findings.push(SUBDOMAIN_RULE.to_owned());
    }
    findings
}

/// RFC 1035 label, for services.
pub(super) fn dns_1035_label(text: &str) -> Findings {
    let mut findings = Findings::new();
    if text.len() > LABEL_LIMIT {
        findings.push(too_long(LABEL_LIMIT));
    }
    if !(is_label_text(text) && text.starts_with(|c: char| c.is_ascii_lowercase())) {
        findings.push(DNS_1035_RULE.to_owned());
    }
    findings
}

/// What may stand between two slashes of a URL: names of RBAC objects.
pub(super) fn path_segment(text: &str) -> Findings {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|c| text.contains(*c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// `name` or `prefix/name`: label keys, annotation keys, resource names, finalizers.
pub fn qualified_name(text: &str) -> Findings {
    let mut findings = Findings::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, None) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                findings.push("prefix part must be non-empty".to_owned());
            } else {
                let prefixed =
                    dns_subdomain(prefix).into_iter().map(|rule| format!("prefix part {rule}"));
                findings.extend(prefixed);
            }
            name
        }
        _ => return vec![QUALIFIED_RULE.to_owned()],
    };
    if name.is_empty() {
        findings.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LIMIT {
        findings.push(format!("name part {}", too_long(LABEL_LIMIT)));
    }
    if !is_name_part(name) {
        findings.push(NAME_PART_RULE.to_owned());
    }
    findings
}

pub fn label_value(text: &str) -> Findings {
    let mut findings = Findings::new();
    if text.len() > LABEL_LIMIT {
        findings.push(too_long(LABEL_LIMIT));
    }
    if !(text.is_empty() || is_name_part(text)) {
        findings.push(LABEL_VALUE_RULE.to_owned());
    }
    findings
}

/// Keys of ConfigMaps and Secrets.
pub(super) fn config_key(text: &str) -> Findings {
    let mut findings = Findings::new();
    if text.len() > SUBDOMAIN_LIMIT {
        findings.push(too_long(SUBDOMAIN_LIMIT));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || !text.bytes().all(allowed) {
        findings.push(CONFIG_KEY_RULE.to_owned());
    }
    match text {
        "." => findings.push("must not be '.'".to_owned()),
        ".." => findings.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => findings.push("must not start with '..'".to_owned()),
        _ => {}
    }
    findings
}

/// Names of environment variables: any printable ASCII but `=`.
pub(super) fn env_name(text: &str) -> Findings {
    let allowed = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if text.is_empty() || !text.bytes().all(allowed) {
        return vec![ENV_NAME_RULE.to_owned()];
    }
    Findings::new()
}

/// Names of container and service ports.
pub(super) fn port_name(text: &str) -> Findings {
    let mut findings = Findings::new();
    if text.len() > 15 {
        findings.push(too_long(15));
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !text.bytes().all(allowed) {
        findings.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        findings.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        findings.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        findings.push("must not begin or end with a hyphen".to_owned());
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_an_accepted_and_a_rejected_neighbour() {
        type Rule = fn(&str) -> Findings;
        let long = "a".repeat(64);
        let cases: [(&str, Rule, &str, &str, &str); 17] = [
            ("label", dns_label, "a-1", "a_1", "a lowercase RFC 1123 label"),
            ("label with dots", dns_label, "a", "a.b", "must not contain dots"),
            ("label of 64", dns_label, &long[1..], &long, "must be no more than 63 bytes"),
            ("empty label", dns_label, "0", "", "a lowercase RFC 1123 label"),
            ("subdomain", dns_subdomain, "a.b-c.0", "a..b", "a lowercase RFC 1123 subdomain"),
            ("1035", dns_1035_label, "a1", "1a", "a DNS-1035 label"),
            ("segment", path_segment, "system:node", "a/b", "may not contain '/'"),
            ("segment dot", path_segment, "...", "..", "may not be '..'"),
            ("qualified", qualified_name, "example.com/A_b.c", "A/b", "prefix part a lowercase"),
            ("qualified parts", qualified_name, "a/b", "a/b/c", "a qualified name must consist"),
            ("qualified prefix", qualified_name, "a", "/a", "prefix part must be non-empty"),
            ("qualified name", qualified_name, "a.b/c", "a.b/", "name part must be non-empty"),
            ("label value", label_value, "", "a b", "a valid label must be an empty string"),
            ("config key", config_key, "a.b_C-1", "a b", "a valid config key"),
            ("config key dots", config_key, ".a", "..a", "must not start with '..'"),
            ("env", env_name, "a b", "a=b", "a valid environment variable name"),
            ("port", port_name, "http-2", "2--2", "must contain at least one letter"),
        ];
        for (name, rule, good, bad, want) in cases {
            assert_eq!(rule(good), Findings::new(), "{name}");
            let findings = rule(bad);
            assert!(findings.iter().any(|found| found.starts_with(want)), "{name}: {findings:?}");
        }
    }
}
