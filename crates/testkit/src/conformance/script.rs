//! How is a transcript read?

use std::collections::BTreeMap;

use super::cases::Case;

/// One line of a case, continuation lines included.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) action: Action,
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    Request(Request),
    Watch { stream: String, request: Request },
    Event { stream: String, kind: String, pattern: String },
    Hook { name: String, answer: String },
    Review { hook: String, pattern: String },
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    /// Repeat until the answer is right.
    pub(super) patient: bool,
    pub(super) times: usize,
    pub(super) expected: Option<Expected>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Expected {
    pub(super) code: u16,
    pub(super) pattern: String,
    pub(super) headers: Vec<(String, String)>,
}

type Fault = (usize, String);

/// Cases of one file.
pub(super) fn parse(area: &str, text: &str) -> Result<Vec<Case>, Fault> {
    let mut shared: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    let mut cases: Vec<Case> = Vec::new();
    let mut into_shared: Option<String> = None;
    for (line, text) in logical_lines(text) {
        let fault = |message: &str| (line, format!("{message}: {text}"));
        if let Some(name) = text.strip_prefix("== ") {
            let id = name.trim().to_owned();
            if cases.iter().any(|case| case.name == id) {
                return Err(fault("this name is taken"));
            }
            into_shared = None;
            cases.push(Case {
                area: area.to_owned(),
                name: id,
                needs: Vec::new(),
                steps: Vec::new(),
            });
            continue;
        }
        if let Some(name) = text.strip_prefix(":: ") {
            shared.insert(name.trim().to_owned(), Vec::new());
            into_shared = Some(name.trim().to_owned());
            continue;
        }
        if let Some(need) = text.strip_prefix("@needs ") {
            let case = cases.last_mut().ok_or_else(|| fault("no case yet"))?;
            case.needs.push(need.trim().to_owned());
            continue;
        }
        let mut included = Vec::new();
        if let Some(name) = text.strip_prefix("@include ") {
            included = shared.get(name.trim()).cloned().ok_or_else(|| fault("unknown steps"))?;
        }
        let steps = match &into_shared {
            Some(name) => shared.entry(name.clone()).or_default(),
            None => &mut cases.last_mut().ok_or_else(|| fault("no case yet"))?.steps,
        };
        if included.is_empty() {
            add(steps, line, &text).map_err(|message| fault(&message))?;
        } else {
            steps.extend(included);
        }
    }
    Ok(cases)
}

/// Lines with their continuations; comments and empty lines are gone.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match lines.last_mut() {
            Some((_, last)) if line.starts_with(' ') => {
                last.push('\n');
                last.push_str(line);
            }
            _ => lines.push((at + 1, line.to_owned())),
        }
    }
    lines
}

fn add(steps: &mut Vec<Step>, line: usize, text: &str) -> Result<(), String> {
    if let Some(rest) = text.strip_prefix("@hook ") {
        let (name, answer) = rest.split_once(' ').ok_or("a webhook needs an answer")?;
        let action = Action::Hook { name: name.to_owned(), answer: answer.to_owned() };
        steps.push(Step { line, action });
        return Ok(());
    }
    if text.starts_with('$') {
        steps.push(Step { line, action: request(text)? });
        return Ok(());
    }
    if let Some(rest) = text.strip_prefix(">h ") {
        let (name, pattern) = rest.split_once(':').ok_or("a header needs a pattern")?;
        let expected = expected_of(steps)?.as_mut().ok_or("a header follows a code")?;
        expected.headers.push((name.trim().to_owned(), pattern.trim().to_owned()));
        return Ok(());
    }
    if let Some(rest) = text.strip_prefix("> ") {
        let (code, pattern) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let code = code.parse().map_err(|_| "an answer begins with a code")?;
        let expected = Expected { code, pattern: pattern.to_owned(), headers: Vec::new() };
        *expected_of(steps)? = Some(expected);
        return Ok(());
    }
    if let Some((name, rest)) = text.split_once("> ") {
        let action = match rest.split_once(char::is_whitespace).unwrap_or((rest, "")) {
            (kind, pattern) if kind.chars().all(|c| c.is_ascii_uppercase()) => Action::Event {
                stream: name.to_owned(),
                kind: kind.to_owned(),
                pattern: pattern.to_owned(),
            },
            _ => Action::Review { hook: name.to_owned(), pattern: rest.to_owned() },
        };
        steps.push(Step { line, action });
        return Ok(());
    }
    Err("this is no step".to_owned())
}

fn expected_of(steps: &mut [Step]) -> Result<&mut Option<Expected>, String> {
    match steps.last_mut().map(|step| &mut step.action) {
        Some(Action::Request(request) | Action::Watch { request, .. }) => Ok(&mut request.expected),
        _ => Err("an answer follows a request".to_owned()),
    }
}

/// `$ w = VERB path [header: value] [patch type] body`
fn request(text: &str) -> Result<Action, String> {
    let (mark, rest) = text.split_once(' ').ok_or("a request needs a verb")?;
    let times = match mark.strip_prefix("$*") {
        Some(times) => times.parse().map_err(|_| "how often?")?,
        None => 1,
    };
    let mut rest = rest.trim_start();
    let mut stream = None;
    if let Some((name, tail)) = rest.split_once(" = ")
        && name.chars().all(|c| c.is_ascii_alphanumeric())
    {
        stream = Some(name.to_owned());
        rest = tail;
    }
    let (method, tail) = word(rest);
    let (path, mut tail) = word(tail);
    let mut headers = Vec::new();
    while let Some(inner) = tail.strip_prefix('[') {
        let Some((flag, after)) = inner.split_once(']') else { break };
        let Some(header) = header(flag) else { break };
        headers.push(header);
        tail = after.trim_start_matches(' ');
    }
    let request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        body: tail.to_owned(),
        patient: mark == "$?",
        times,
        expected: None,
    };
    match stream {
        Some(stream) if method == "WATCH" => Ok(Action::Watch { stream, request }),
        None if method != "WATCH" => Ok(Action::Request(request)),
        _ => Err("a watch has a name, nothing else has".to_owned()),
    }
}

fn header(flag: &str) -> Option<(String, String)> {
    let patch = |kind: &str| Some(("content-type".to_owned(), format!("application/{kind}")));
    match flag {
        "json" => patch("json-patch+json"),
        "merge" => patch("merge-patch+json"),
        "strategic" => patch("strategic-merge-patch+json"),
        "apply" => patch("apply-patch+yaml"),
        _ => {
            let (name, value) = flag.split_once(": ")?;
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            plain.then(|| (name.to_owned(), value.to_owned()))
        }
    }
}

fn word(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim_start_matches(' ')),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_becomes_steps() {
        let text = "\
:: setup
$ POST /a {x: 1}
> 201
== first
@include setup
$? PATCH /a/b?c=d [merge] [accept: text/plain] {spec:
  {x: 2}}
> 200 {x: 2}
>h warning: ~299
$ w = WATCH /a
w> ADDED {metadata: {}}
w> END
";
        let cases = parse("area", text).unwrap();
        let [case] = &cases[..] else { panic!("{cases:?}") };
        assert_eq!(case.id(), "area: first");
        let kinds: Vec<&Action> = case.steps.iter().map(|step| &step.action).collect();
        let [Action::Request(post), Action::Request(patch), Action::Watch { .. }, ..] = kinds[..]
        else {
            panic!("{kinds:?}")
        };
        assert_eq!(post.body, "{x: 1}");
        assert!(patch.patient && !post.patient);
        assert_eq!(patch.headers.len(), 2);
        assert_eq!(patch.body, "{spec:\n  {x: 2}}");
        assert_eq!(patch.expected.as_ref().unwrap().headers.len(), 1);
    }

    #[test]
    fn what_is_no_transcript_is_refused_with_its_line() {
        for (text, line) in [
            ("$ GET /a", 1),
            ("== a\n== a", 2),
            ("== a\n> 200", 2),
            ("== a\n$ GET /\n> many", 3),
            ("== a\n$ WATCH /", 2),
            ("== a\n@include b", 2),
            ("== a\nhello", 2),
        ] {
            assert_eq!(parse("area", text).err().map(|fault| fault.0), Some(line), "{text}");
        }
    }
}
