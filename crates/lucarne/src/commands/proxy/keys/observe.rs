//! Keys under `observe`.

use lucarne_settings::form::{Count, Each, File, Files, One, UrlOrFile};
use lucarne_settings::section;
use lucarne_settings::values::parsed;
use url::{ParseError, Url};

use super::super::config::{Config, NotAWebhook, webhook};

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

    /// SQLite database for the [inventory](../how-to/proxy-observation.md#the-inventory) of hosts
    /// and certificates, created if it does not exist
    database: File = File, "none" => database;

    /// `http` or `https` URL that receives the events of the inventory as JSON
    webhook: One<Url, NotAWebhook> = One::new(webhook), "none" => webhook;

    /// days before the expiry of a certificate at which an event reports the certificate
    expirydays: Count = Count::within(1, 3650, "days") => expiry_days;
}
