//! What is in a Rust file, as far as the layer check cares?
//!
//! This is no parser. Comments and literals are blanked out first; after that
//! braces balance and keywords are keywords, which is enough to find test
//! modules, functions and `unsafe`.

use std::ops::Range;

/// A Rust file without comments, strings and characters. Lines keep their
/// numbers and bytes their places.
#[derive(Debug)]
pub(crate) struct Source {
    code: Vec<u8>,
}

/// A function and the lines it covers, from `fn` to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// What `#[cfg(test)]` takes out of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    /// Byte ranges in this file.
    ranges: Vec<Range<usize>>,
    /// Modules in files of their own.
    pub(crate) modules: Vec<String>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Self { code: blank(text.as_bytes()) }
    }

    pub(crate) fn lines(&self) -> usize {
        self.code.split_inclusive(|byte| *byte == b'\n').count()
    }

    /// Lines that are left when the tests are taken out.
    pub(crate) fn lines_without(&self, tests: &Tests) -> usize {
        let inside: usize = tests
            .ranges
            .iter()
            .map(|range| self.line(range.end) - self.line(range.start) + 1)
            .sum();
        self.lines().saturating_sub(inside)
    }

    /// Line numbers on which `word` stands by itself.
    pub(crate) fn lines_with_word(&self, word: &str) -> Vec<usize> {
        words(&self.code)
            .filter(|(_, found)| *found == word.as_bytes())
            .map(|(at, _)| self.line(at))
            .collect()
    }

    /// Names of all modules that are declared here, with their lines.
    pub(crate) fn modules(&self) -> Vec<(String, usize)> {
        let modules = declared(&self.code, b"mod");
        modules.map(|(at, name)| (text(name), self.line(at))).collect()
    }

    pub(crate) fn tests(&self) -> Tests {
        let mut tests = Tests::default();
        let mut from = 0;
        while let Some(start) = self.find(b"#[cfg(", from) {
            let end = self.matching(start + 1).unwrap_or(self.code.len());
            from = end;
            if !is_for_tests(self.slice(start..end)) {
                continue;
            }
            let Some(item) = self.item_after(end) else { continue };
            let module = declared(self.slice(item.clone()), b"mod").next();
            if let (Some((_, name)), Some(b';')) = (module, self.code.get(item.end - 1)) {
                tests.modules.push(text(name));
            }
            from = item.end;
            tests.ranges.push(start..item.end - 1);
        }
        tests
    }

    /// Functions with a body, outside of `tests`.
    pub(crate) fn functions(&self, tests: &Tests) -> Vec<Function> {
        declared(&self.code, b"fn")
            .filter(|(at, _)| !tests.ranges.iter().any(|range| range.contains(at)))
            .filter_map(|(at, name)| {
                let item = self.item_after(at)?;
                let has_body = self.code.get(item.end - 1) == Some(&b'}');
                let (line, last) = (self.line(at), self.line(item.end - 1));
                let lines = last - line + 1;
                has_body.then_some(Function { name: text(name), line, lines })
            })
            .collect()
    }

    /// From here to the end of the item: its closing brace, or its semicolon.
    /// Attributes in front of the item are part of it.
    fn item_after(&self, start: usize) -> Option<Range<usize>> {
        let mut at = start;
        loop {
            match self.code.get(at)? {
                b';' => return Some(start..at + 1),
                b'{' => return Some(start..self.matching(at)?),
                b'(' | b'[' => at = self.matching(at)?,
                // A field or a variant ends with what it is part of.
                b')' | b']' | b'}' => return (at > start).then_some(start..at),
                _ => at += 1,
            }
        }
    }

    /// The place behind the bracket that closes the one at `open`.
    fn matching(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, byte) in self.code.iter().enumerate().skip(open) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    fn find(&self, wanted: &[u8], from: usize) -> Option<usize> {
        let rest = self.code.get(from..)?;
        rest.windows(wanted.len()).position(|window| window == wanted).map(|at| from + at)
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        self.code.get(range).unwrap_or_default()
    }

    fn line(&self, at: usize) -> usize {
        self.code.iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }
}

/// `#[cfg(test)]` and `#[cfg(all(test, ...))]`, but not `any(test, ...)`.
fn is_for_tests(attribute: &[u8]) -> bool {
    let attribute = text(attribute);
    attribute.starts_with("#[cfg(test)") || attribute.starts_with("#[cfg(all(test,")
}

/// The names that directly follow `keyword`, with the places of the keyword.
fn declared<'a>(code: &'a [u8], keyword: &[u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
    words(code).zip(words(code).skip(1)).filter_map(move |((at, word), (next, name))| {
        let gap = code.get(at + word.len()..next)?;
        (word == keyword && gap.iter().all(u8::is_ascii_whitespace)).then_some((at, name))
    })
}

fn words(code: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let mut at = 0;
    code.chunk_by(move |left, right| is_word(left) == is_word(right))
        .map(move |chunk| {
            let start = at;
            at += chunk.len();
            (start, chunk)
        })
        .filter(move |(_, chunk)| chunk.first().is_some_and(is_word))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Replaces comments and the insides of literals by spaces.
fn blank(text: &[u8]) -> Vec<u8> {
    let mut code = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        let after_word =
            code.last().is_some_and(|last: &u8| last.is_ascii_alphanumeric() || *last == b'_');
        let length = match first {
            b'/' if rest.starts_with(b"//") => line_length(rest),
            b'/' if rest.starts_with(b"/*") => block_length(rest),
            b'"' => string_length(rest),
            b'r' | b'b' | b'c' if !after_word => raw_length(rest),
            b'\'' => character_length(rest),
            _ => 0,
        };
        let (blanked, next) = rest.split_at(length.max(1).min(rest.len()));
        match length {
            0 => code.extend_from_slice(blanked),
            _ => code.extend(blanked.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' })),
        }
        rest = next;
    }
    code
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

/// Block comments nest.
fn block_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(tail @ [_, ..]) = rest.get(at..) {
        if tail.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if tail.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string_length(rest: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `r"..."`, `r#"..."#`, `br"..."` and the like; 0 when it is only a name.
fn raw_length(rest: &[u8]) -> usize {
    let prefix = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let hashes = rest.iter().skip(prefix).take_while(|byte| **byte == b'#').count();
    let (name, open) = (rest.get(..prefix).unwrap_or_default(), prefix + hashes);
    if !matches!(name, b"r" | b"br" | b"cr") || rest.get(open) != Some(&b'"') {
        return 0;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let body = rest.get(open + 1..).unwrap_or_default();
    let length = body.windows(close.len()).position(|window| window == close);
    length.map_or(rest.len(), |length| open + 1 + length + close.len())
}

/// A character, or 0 when the quote starts a lifetime or a label.
fn character_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|byte| *byte == b'\'');
        return close.map_or(rest.len(), |at| at + 4);
    }
    let Some(character) = rest.get(1..).and_then(|tail| {
        let head = tail.get(..tail.len().min(4))?;
        let valid = head.utf8_chunks().next()?.valid();
        valid.chars().next()
    }) else {
        return 0;
    };
    let close = 1 + character.len_utf8();
    if rest.get(close) == Some(&b'\'') { close + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_only_in_code() {
        let cases = [
            ("keyword", "unsafe { x() }", vec![1]),
            ("attribute", "\n#[unsafe(no_mangle)]", vec![2]),
            ("line comment", "// unsafe\nfn a() {}", vec![]),
            ("nested comment", "/* a /* unsafe */ unsafe */ unsafe", vec![1]),
            ("string", "let a = \"unsafe \\\" unsafe\"; unsafe {}", vec![1]),
            ("raw string", "let a = r#\"unsafe \" unsafe\"#;\nunsafe {}", vec![2]),
            ("byte string", "let a = b\"unsafe\";", vec![]),
            ("raw byte string", "let a = br\"unsafe\\\"; unsafe {}", vec![1]),
            ("character", "let a = '\"'; unsafe {} // \"", vec![1]),
            ("escaped character", "let a = '\\''; unsafe {} // '", vec![1]),
            ("lifetime", "fn a<'a>(x: &'a str) { unsafe {} }", vec![1]),
            ("part of a name", "#![deny(unsafe_code)]", vec![]),
            ("raw name", "let r#type = 1; unsafe {}", vec![1]),
            ("string over lines", "let a = \"\n\nunsafe\n\";\nunsafe {}", vec![5]),
        ];
        for (name, code, want) in cases {
            assert_eq!(Source::new(code).lines_with_word("unsafe"), want, "{name}");
        }
    }

    const FILE: &str = "\
fn one() {
    two();
}

#[cfg(test)]
fn only_for_tests() {}

#[cfg(any(test, feature = \"fake\"))]
fn real() { let a = [0; 3]; }

trait T {
    fn declared(&self);
    const F: fn(u8) -> u8;
}

#[cfg(test)]
#[path = \"elsewhere.rs\"]
mod outside;

#[cfg(test)]
mod tests {
    fn a() {
    }
}
";

    #[test]
    fn tests_are_found_and_taken_out() {
        let source = Source::new(FILE);
        let tests = source.tests();
        assert_eq!(tests.modules, ["outside"]);
        assert_eq!(source.lines(), 24);
        assert_eq!(source.lines_without(&tests), 24 - 2 - 3 - 5);
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let source = Source::new(FILE);
        let functions = source.functions(&source.tests());
        let measured: Vec<_> =
            functions.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(measured, [("one", 1, 3), ("real", 9, 1)]);
    }

    #[test]
    fn a_variant_for_tests_ends_with_its_enum() {
        let source = Source::new("enum E {\n    A,\n    #[cfg(test)]\n    B,\n}\nfn a() {}\n");
        let tests = source.tests();
        assert_eq!(source.functions(&tests).len(), 1);
    }

    #[test]
    fn modules_are_named_with_their_lines() {
        let modules = Source::new("pub mod a;\n// mod b;\nmod util {\n}").modules();
        assert_eq!(modules, [("a".to_owned(), 1), ("util".to_owned(), 3)]);
    }
}
