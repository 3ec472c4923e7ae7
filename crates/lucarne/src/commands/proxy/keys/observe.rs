//! Keys under `observe`.

use lucarne_settings::form::{Each, Files, UrlOrFile};
use lucarne_settings::section;
use lucarne_settings::values::parsed;
use url::{ParseError, Url};

use super::super::config::Config;

section! {
    for Config = [Config::default()];

    /// log list (version 3 JSON) for the verification of SCTs: a file or a URL
    #[beside("`--log-list`")]
    loglist: UrlOrFile = UrlOrFile, "none" => log_list;

    /// submission prefix of a log that receives the chains that are in no log; a list: each chain
    /// goes to the log with a matching temporal interval
    #[beside("`--submit-to`")]
    submitto: Each<Url, ParseError> = Each(parsed), "none" => submit_to;

    /// public key (PEM) of that log; a list in the same order
    #[beside("`--submit-key`")]
    submitkey: Files = Files, "from the log list" => submit_keys;
}
