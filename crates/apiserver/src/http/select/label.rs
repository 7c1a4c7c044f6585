//! How is a label selector read?
//!
//! Both spellings end in the same list of requirements: the text of `?labelSelector=` and the
//! `LabelSelector` objects inside other objects (`matchLabels`, `matchExpressions`).

use std::collections::BTreeSet;

use serde_json::Value;

use objects::schema::names;

/// Requirements that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

/// Why a selector cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    #[error("unable to parse requirement: found '{found}', expected: {expected}")]
    Syntax { found: String, expected: &'static str },
    #[error("unable to parse requirement: found '{found}' expected: '('")]
    NoList { found: String },
    #[error("found '{found}', expected: identifier after ','")]
    AfterComma { found: String },
    #[error(
        "unable to parse requirement: values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' \
         operators, the value must be an integer"
    )]
    Bound { value: String },
    #[error("unable to parse requirement: <nil>: Invalid value: {key:?}: {why}")]
    Key { key: String, why: String },
    #[error("unable to parse requirement: values[0][{key}]: Invalid value: {value:?}: {why}")]
    Value { key: String, value: String, why: String },
    #[error("{operator:?} is not a valid label selector operator")]
    Operator { operator: String },
}

impl Requirement {
    fn new(key: &str, test: Test) -> Result<Self, SelectorError> {
        if let Some(why) = names::qualified_name(key).into_iter().next() {
            return Err(SelectorError::Key { key: key.to_owned(), why });
        }
        if let Test::In(values) | Test::NotIn(values) = &test {
            for value in values {
                if let Some(why) = names::label_value(value).into_iter().next() {
                    return Err(SelectorError::Value {
                        key: key.to_owned(),
                        value: value.clone(),
                        why,
                    });
                }
            }
        }
        Ok(Self { key: key.to_owned(), test })
    }

    /// Whether the condition holds for the label's value, `None` when the object lacks it.
    pub(crate) fn holds(&self, value: Option<&str>) -> bool {
        match (&self.test, value) {
            (Test::In(values), Some(value)) => values.contains(value),
            (Test::NotIn(values), Some(value)) => !values.contains(value),
            (Test::Exists, value) => value.is_some(),
            (Test::Absent, value) => value.is_none(),
            (Test::Greater(bound), Some(value)) => value.parse().is_ok_and(|n: i64| n > *bound),
            (Test::Less(bound), Some(value)) => value.parse().is_ok_and(|n: i64| n < *bound),
            (Test::NotIn(_), None) => true,
            (Test::In(_) | Test::Greater(_) | Test::Less(_), None) => false,
        }
    }
}

impl Labels {
    pub(crate) fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Reads `a=b,c in (d,e),!f`.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        if tokens.peek() == Token::End {
            return Ok(Self::default());
        }
        loop {
            requirements.push(requirement(&mut tokens)?);
            match tokens.next() {
                Token::End => return Ok(Self { requirements }),
                Token::Comma if matches!(tokens.peek(), Token::Word(_) | Token::Not) => {}
                Token::Comma => return Err(tokens.next().after_comma()),
                other => return Err(other.unexpected("',' or end of string")),
            }
        }
    }

    /// Reads a `LabelSelector` object; an empty one matches everything.
    pub(crate) fn from_object(selector: &Value) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        if let Some(map) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in map {
                let value = value.as_str().unwrap_or_default().to_owned();
                requirements.push(Requirement::new(key, Test::In([value].into()))?);
            }
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or("");
            let values = || -> BTreeSet<String> {
                let list = expression.get("values").and_then(Value::as_array);
                list.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
            };
            let test = match text("operator") {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                other => return Err(SelectorError::Operator { operator: other.to_owned() }),
            };
            requirements.push(Requirement::new(text("key"), test)?);
        }
        Ok(Self { requirements })
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, SelectorError> {
    let key = match tokens.next() {
        Token::Not => match tokens.next() {
            Token::Word(key) => return Requirement::new(key, Test::Absent),
            other => return Err(other.unexpected("identifier")),
        },
        Token::Word(key) => key,
        other => return Err(other.unexpected("!, identifier, or ','")),
    };
    let test = match tokens.peek() {
        Token::End | Token::Comma => Test::Exists,
        _ => match tokens.next() {
            Token::Equal => Test::In([exact_value(tokens)?].into()),
            Token::NotEqual => Test::NotIn([exact_value(tokens)?].into()),
            Token::Greater => Test::Greater(bound(tokens)?),
            Token::Less => Test::Less(bound(tokens)?),
            Token::Word("in") => Test::In(value_list(tokens)?),
            Token::Word("notin") => Test::NotIn(value_list(tokens)?),
            other => return Err(other.unexpected("in, notin, =, ==, !=, gt, lt")),
        },
    };
    Requirement::new(key, test)
}

fn exact_value(tokens: &mut Tokens<'_>) -> Result<String, SelectorError> {
    match tokens.peek() {
        Token::End | Token::Comma => Ok(String::new()),
        _ => match tokens.next() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(other.unexpected("identifier")),
        },
    }
}

fn bound(tokens: &mut Tokens<'_>) -> Result<i64, SelectorError> {
    let text = exact_value(tokens)?;
    text.parse().map_err(|_| SelectorError::Bound { value: text })
}

fn value_list(tokens: &mut Tokens<'_>) -> Result<BTreeSet<String>, SelectorError> {
    match tokens.next() {
        Token::Open => {}
        other => return Err(SelectorError::NoList { found: other.text().to_owned() }),
    }
    let mut values = BTreeSet::new();
    loop {
        match tokens.next() {
            Token::Word(value) => {
                values.insert(value.to_owned());
                match tokens.next() {
                    Token::Comma => {}
                    Token::Close => return Ok(values),
                    other => return Err(other.unexpected("',' or ')'")),
                }
            }
            // An empty element, as in `(a,,b)` and `(,a)`, stands for the empty value.
            Token::Comma => {
                values.insert(String::new());
            }
            Token::Close => {
                values.insert(String::new());
                return Ok(values);
            }
            other => return Err(other.unexpected("',', ')' or identifier")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

impl<'a> Token<'a> {
    fn unexpected(self, expected: &'static str) -> SelectorError {
        SelectorError::Syntax { found: self.text().to_owned(), expected }
    }

    fn after_comma(self) -> SelectorError {
        SelectorError::AfterComma { found: self.text().to_owned() }
    }

    fn text(self) -> &'a str {
        match self {
            Token::Word(word) => word,
            Token::Not => "!",
            Token::Equal => "=",
            Token::NotEqual => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::End => "",
        }
    }
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> Token<'a> {
        Tokens { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        let text = self.rest.trim_start();
        let (token, length) = match text.as_bytes() {
            [] => (Token::End, 0),
            [b'!', b'=', ..] => (Token::NotEqual, 2),
            [b'!', ..] => (Token::Not, 1),
            [b'=', b'=', ..] => (Token::Equal, 2),
            [b'=', ..] => (Token::Equal, 1),
            [b'>', ..] => (Token::Greater, 1),
            [b'<', ..] => (Token::Less, 1),
            [b'(', ..] => (Token::Open, 1),
            [b')', ..] => (Token::Close, 1),
            [b',', ..] => (Token::Comma, 1),
            _ => {
                let special = |c: char| c.is_whitespace() || "!=><(),".contains(c);
                let end = text.find(special).unwrap_or(text.len());
                (Token::Word(&text[..end]), end)
            }
        };
        self.rest = &text[length..];
        token
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn broken_selectors_are_refused() {
        let cases = [
            ("trailing comma", "a=b,"),
            ("open list", "a in (b"),
            ("no list", "a in b"),
            ("two values", "a=b c"),
            ("no key", "=b"),
            ("a bad key", "-a=b"),
            ("a bad value", "a=-b"),
            ("a bound that is no number", "a>b"),
            ("unknown operator", "a like b"),
        ];
        for (name, text) in cases {
            assert!(Labels::parse(text).is_err(), "{name}");
        }
    }

    #[test]
    fn objects_and_text_agree() {
        let object = json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["d", "e"]},
                {"key": "f", "operator": "NotIn", "values": ["g"]},
                {"key": "h", "operator": "Exists"},
                {"key": "i", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(Labels::from_object(&object), Labels::parse("a=b, c in (e,d),f notin (g),h,!i"));
        let wrong = json!({"matchExpressions": [{"key": "c", "operator": "Like"}]});
        assert!(Labels::from_object(&wrong).is_err());
        assert_eq!(Labels::from_object(&json!({})), Ok(Labels::default()));
    }

    proptest! {
        #[test]
        fn no_selector_panics(text in "[a-c!=<>(), inot]{0,16}") {
            let _ = Labels::parse(&text);
        }
    }
}
