//! A response that parses as an SCT is the same SCT after encoding and parsing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lucarne_ct::Sct;

fuzz_target!(|json: &[u8]| {
    let Ok(sct) = Sct::parse(json) else { return };
    let _ = sct.index();
    assert_eq!(Sct::parse(&sct.to_json()).expect("its own JSON"), sct);
});
