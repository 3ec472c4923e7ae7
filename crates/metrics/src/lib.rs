//! Declaration of metrics for Prometheus.

/// Re-export for the code that [`metrics!`] generates.
#[doc(hidden)]
pub use prometheus_client;

/// Declares a struct of metrics, with the name and help text of each metric.
///
/// ```
/// use prometheus_client::metrics::counter::Counter;
/// use prometheus_client::metrics::family::Family;
/// use prometheus_client::metrics::histogram::Histogram;
/// use prometheus_client::registry::{Registry, Unit};
///
/// type Labels = [(&'static str, &'static str); 1];
///
/// fn seconds() -> Histogram {
///     Histogram::new([0.1, 1.0])
/// }
///
/// lucarne_metrics::metrics! {
///     /// Metrics of a shop.
///     struct Shop, prefix "shop" {
///         orders: Counter = ("orders", "Orders so far");
///         wait: Family<Labels, Histogram, fn() -> Histogram> =
///             ("wait", "Time from an order to its delivery", Unit::Seconds) with seconds;
///     }
/// }
///
/// let (shop, mut registry) = (Shop::default(), Registry::default());
/// shop.describe(&mut registry);
/// shop.orders.inc();
/// shop.wait.get_or_create(&[("city", "Rome")]).observe(0.5);
/// let mut text = String::new();
/// prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
/// let (orders, wait) = text.split_once("# HELP shop_wait_seconds").unwrap();
/// let help = "# HELP shop_orders Orders so far.\n# TYPE shop_orders counter\n";
/// assert_eq!(orders, format!("{help}shop_orders_total 1\n"));
/// assert!(wait.contains("shop_wait_seconds_bucket{le=\"1.0\",city=\"Rome\"} 1\n"));
/// ```
///
/// The name of a metric in the exposition has the prefix and the unit, if there is one. A family of
/// histograms needs `with` and the function that creates a histogram.
///
/// The macro generates `Default`, which creates the metrics, and `describe`, which registers the
/// metrics in the order of the declaration.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident, prefix $prefix:literal {
            $(
                $(#[$doc:meta])*
                $shown:vis $field:ident: $kind:ty =
                    ($metric:literal, $help:literal $(, $unit:expr)?) $(with $create:ident)?;
            )+
        }
    ) => {
        $(#[$about])*
        $visible struct $name {
            $($(#[$doc])* $shown $field: $kind,)+
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $crate::metrics!(@create $($create)?),)+ }
            }
        }

        impl $name {
            /// Registers the metrics.
            pub(crate) fn describe(
                &self,
                registry: &mut $crate::prometheus_client::registry::Registry,
            ) {
                let registry = registry.sub_registry_with_prefix($prefix);
                $(
                    let metric = self.$field.clone();
                    $crate::metrics!(@register registry, metric, $metric, $help $(, $unit)?);
                )+
            }
        }
    };
    (@create) => {
        Default::default()
    };
    (@create $create:ident) => {
        $crate::prometheus_client::metrics::family::Family::new_with_constructor($create)
    };
    (@register $registry:ident, $metric:ident, $name:literal, $help:literal) => {
        $registry.register($name, $help, $metric)
    };
    (@register $registry:ident, $metric:ident, $name:literal, $help:literal, $unit:expr) => {
        $registry.register_with_unit($name, $help, $unit, $metric)
    };
}
