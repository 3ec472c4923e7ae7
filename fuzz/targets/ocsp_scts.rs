//! The search for SCTs in an OCSP response returns without a panic, and so does the parser of the
//! list.

use lucarne_ct::{SctList, sct_list_of_ocsp};

pub(crate) fn run(response: &[u8]) {
    if let Ok(Some(list)) = sct_list_of_ocsp(response)
        && let Ok(list) = SctList::parse(list)
    {
        let _ = list.iter().count();
    }
}
