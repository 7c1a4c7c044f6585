use serde_json::{Value, json};

use super::*;

fn context() -> Value {
    json!({
        "Values": {
            "name": "web", "empty": "", "zero": 0, "port": 8080, "on": true, "off": false,
            "map": {"b": "2", "a": 1}, "list": ["x", "y"], "none": null,
        },
        "Release": {"Name": "r"},
    })
}

fn say(text: &str) -> Result<String, TemplateError> {
    let mut templates = Templates::default();
    templates.add("templates/_h.tpl", "{{ define \"h\" -}} <{{ . }}> {{- end }}\n{{ define \"loop\" }}{{ include \"loop\" . }}{{ end }}")?;
    templates.add("templates/t.yaml", text)?;
    let files =
        BTreeMap::from([("files/a/1.txt", "one"), ("files/a/2.txt", "two"), ("files/b", "b")]);
    templates.render("templates/t.yaml", &context(), &files)
}

#[test]
fn templates_say_what_go_says() {
    let cases = [
        ("text alone", "a {b} c", "a {b} c"),
        ("a field", "{{ .Values.name }}:{{.Values.port}}", "web:8080"),
        ("a missing field", "[{{ .Values.nothing }}]", "[]"),
        ("trimming before", "a \n {{- .Values.name }} b", "aweb b"),
        ("trimming behind", "a {{ .Values.name -}} \n b", "a webb"),
        ("a minus is no trimming", "{{ -1 }}", "-1"),
        ("a remark", "a{{/* a }} remark */}}b", "ab"),
        ("a trimmed remark", "a {{- /* remark */ -}} b", "ab"),
        ("if", "{{ if .Values.on }}y{{ else }}n{{ end }}", "y"),
        ("else", "{{ if .Values.empty }}y{{ else }}n{{ end }}", "n"),
        ("else if", "{{ if .Values.off }}1{{ else if .Values.on }}2{{ else }}3{{ end }}", "2"),
        ("zero is false", "{{ if .Values.zero }}y{{ end }}", ""),
        ("with", "{{ with .Values.map }}{{ .a }}{{ end }}", "1"),
        ("with nothing", "{{ with .Values.none }}x{{ else }}{{ .Release.Name }}{{ end }}", "r"),
        ("range over a list", "{{ range .Values.list }}{{ . }},{{ end }}", "x,y,"),
        (
            "range over a map, sorted",
            "{{ range $k, $v := .Values.map }}{{ $k }}={{ $v }} {{ end }}",
            "a=1 b=2 ",
        ),
        ("range over nothing", "{{ range .Values.none }}x{{ else }}none{{ end }}", "none"),
        (
            "the root within",
            "{{ range $i, $x := .Values.list }}{{ $i }}{{ $.Release.Name }}{{ end }}",
            "0r1r",
        ),
        ("variables", "{{ $a := 1 }}{{ if true }}{{ $a = 2 }}{{ end }}{{ $a }}", "2"),
        (
            "a shadow ends with its block",
            "{{ $a := 1 }}{{ if true }}{{ $a := 2 }}{{ end }}{{ $a }}",
            "1",
        ),
        ("pipelines", "{{ .Values.empty | default \"d\" | quote }}", "\"d\""),
        ("brackets", "{{ if and (eq .Values.name \"web\") (not .Values.off) }}y{{ end }}", "y"),
        ("or gives the value", "{{ or .Values.empty .Values.name }}", "web"),
        ("and looks no further", "{{ and .Values.off .Values.none.deep }}", "false"),
        ("include", "{{ include \"h\" 3 | indent 2 }}", "  <3>"),
        ("yaml", "m:{{ toYaml .Values.map | nindent 2 }}", "m:\n  a: 1\n  b: \"2\""),
        ("json", "{{ toJson .Values.map }}", "{\"a\":1,\"b\":\"2\"}"),
        ("a file", "{{ .Files.Get \"files/b\" }}", "b"),
        (
            "files",
            "{{ range $p, $t := .Files.Glob \"files/a/*.txt\" }}{{ base $p | trimSuffix \".txt\" }}={{ $t }} {{ end }}",
            "1=one 2=two ",
        ),
        ("numbers in texts", "{{ if ge (int \"4\") 4 }}y{{ end }}", "y"),
        ("a dictionary", "{{ (dict \"a\" 1) | toYaml }}", "a: 1"),
        (
            "the first wins",
            "{{ merge (dict \"a\" 1) (dict \"a\" 2 \"b\" 3) | toJson }}",
            "{\"a\":1,\"b\":3}",
        ),
        ("an element", "{{ index .Values.list 1 }}{{ index .Values.map \"b\" }}", "y2"),
        ("split", "{{ splitList \".\" \"a.b\" | first }}", "a"),
        ("a part", "{{ if contains \"we\" .Values.name }}y{{ end }}", "y"),
        (
            "no cluster",
            "{{ if lookup \"v1\" \"ConfigMap\" \"n\" \"x\" }}y{{ else }}n{{ end }}",
            "n",
        ),
    ];
    for (name, text, want) in cases {
        assert_eq!(say(text).as_deref(), Ok(want), "{name}");
    }
}

#[test]
fn what_is_not_understood_is_named_with_its_line() {
    let cases = [
        (
            "an unknown function",
            "a\n{{ sha256sum .Values.name }}",
            "t.yaml:2: sha256sum: this function",
        ),
        ("a template call", "{{ template \"h\" . }}", "t.yaml:1: template is outside"),
        (
            "a field of nothing",
            "\n\n{{ .Values.none.deep }}",
            "t.yaml:3: there is nothing that could have .deep",
        ),
        ("a field of a text", "{{ .Values.name.deep }}", "only maps have fields such as .deep"),
        ("a missing end", "{{ if true }}", "t.yaml:1: if without end"),
        ("an end too many", "\n{{ end }}", "t.yaml:2: end without a beginning"),
        ("an open action", "a {{ .Values", "t.yaml:1: an action is not closed"),
        ("an open quote", "{{ \"a }}", "t.yaml:1: an action is not closed"),
        ("a map as text", "{{ .Values.map }}", "printed with toYaml"),
        ("an unknown variable", "{{ $x }}", "$x is not declared"),
        ("an unknown definition", "{{ include \"x\" . }}", "\"x\" is not defined"),
        ("a definition of itself", "{{ include \"loop\" . }}", "includes itself"),
        ("too many arguments", "{{ quote 1 2 }}", "quote: these are not the arguments"),
        ("unequal kinds", "{{ eq 1 \"1\" }}", "eq: compares two"),
        ("a fraction", "{{ 1.5 }}", "is no whole number"),
        ("a bracket too many", "{{ (1)) }}", "one ) too many"),
        ("an open bracket", "{{ (1 }}", "a ( is not closed"),
        ("a strange letter", "{{ a ? b }}", "'?' is outside"),
        ("an element that is not there", "{{ index .Values.list 7 }}", "there is no element 7"),
        ("range over a text", "{{ range .Values.name }}{{ end }}", "range goes over"),
    ];
    for (name, text, want) in cases {
        let error = say(text).unwrap_err().to_string();
        assert!(error.contains(want), "{name}: {error}");
    }
}

proptest::proptest! {
    /// Whatever is typed, there is an answer.
    #[test]
    fn no_text_is_too_strange(text in "[a-z{}()|.$:=\"` /*\\n-]{0,40}") {
        let _ = say(&text);
    }
}
