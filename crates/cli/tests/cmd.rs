//! What the user types and sees. Guides are transcripts too.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd").case("../../docs/guides/*.md");
}
