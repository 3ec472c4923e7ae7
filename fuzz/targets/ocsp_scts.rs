//! The search for SCTs in an OCSP response stays within its bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lucarne_ct::{SctList, sct_list_of_ocsp};

fuzz_target!(|response: &[u8]| {
    if let Ok(Some(list)) = sct_list_of_ocsp(response)
        && let Ok(list) = SctList::parse(list)
    {
        let _ = list.iter().count();
    }
});
