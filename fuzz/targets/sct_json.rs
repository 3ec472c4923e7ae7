//! A response that parses as an SCT is the same SCT after encoding and parsing.

use lucarne_ct::Sct;

pub(crate) fn run(json: &[u8]) {
    let Ok(sct) = Sct::parse(json) else { return };
    let _ = sct.index();
    assert_eq!(Sct::parse(&sct.to_json()).expect("its own JSON"), sct);
}
