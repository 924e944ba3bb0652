// SPDX-License-Identifier: Apache-2.0
// The layout of the report. Colours are those of svg_style().
#ifndef BONSAI_BENCH_REPORT_REPORT_STYLE_H_
#define BONSAI_BENCH_REPORT_REPORT_STYLE_H_

#include <string_view>

namespace bonsai::bench {

inline constexpr std::string_view kReportStyle = R"(*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.5;
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1160px;margin:0 auto;padding:28px 24px 48px}
h1{font-size:27px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
h1.chapter{font-size:24px;margin:56px 0 0;padding-top:10px;border-top:3px solid var(--faint)}
h2{font-size:19px;margin:40px 0 4px}
p{margin:4px 0 12px;max-width:80ch;overflow-wrap:anywhere}.soft{color:var(--soft)}
.facts{display:flex;flex-wrap:wrap;gap:10px;margin:18px 0 0;padding:0;list-style:none}
.facts li{background:var(--wash);border-radius:8px;padding:8px 14px}
.facts b{display:block;font-size:17px;font-variant-numeric:tabular-nums}.facts span{color:var(--soft);font-size:12px}
.label{margin:18px 0 0;padding:12px 16px;border-radius:8px;background:var(--warn);color:var(--warn-ink);
border:1px solid var(--warn-edge);border-left-width:8px}
.label strong{letter-spacing:.04em}.alarm{border-color:var(--alarm)}.alarm strong{color:var(--alarm)}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(340px,1fr));gap:16px;margin-top:14px}
figure{margin:0;padding:14px 14px 8px;background:var(--card);border:1px solid var(--faint);border-radius:10px;
break-inside:avoid}
th.wrap{white-space:normal;max-width:130px;overflow-wrap:break-word}
.grid.one{grid-template-columns:1fr}figure.experiment{overflow-x:auto}
figure.experiment svg{max-width:820px;min-width:600px}
figure svg{display:block;width:100%;height:auto}
figcaption{color:var(--soft);font-size:12px;margin-top:6px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:8px 0 0;padding:0;list-style:none;font-size:13px}
.legend i{display:inline-block;width:18px;height:11px;border-radius:2px;margin-right:6px;vertical-align:-1px}
.contents{columns:2;column-gap:32px;margin:16px 0 0;padding:0;list-style:none;font-size:12px;line-height:1.4}
.contents .chapter{font-weight:700;font-size:13px;padding-top:8px}
.contents li{break-inside:avoid;padding:2px 0}.contents a{color:inherit;font-weight:600}
.notes{margin:10px 0 0;padding-left:20px;font-size:13px;color:var(--soft);max-width:100ch}
.unit{color:var(--soft);font-weight:400;font-size:11px;display:block}
.scroll{overflow-x:auto;margin-top:14px}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}
th{font-weight:600;text-align:right;padding:5px 8px;border-bottom:2px solid var(--faint);vertical-align:bottom}
td{text-align:right;padding:4px 8px;border-bottom:1px solid var(--faint);white-space:nowrap}
th.l,td.l{text-align:left}tr.first td{border-top:2px solid var(--faint)}td.bad{color:var(--alarm);font-weight:600}
.manifest{columns:2;column-gap:40px;margin:14px 0 0;font-size:13px}
.manifest div{break-inside:avoid;padding:3px 0}.manifest dt{color:var(--soft);display:inline}
.manifest dd{display:inline;margin:0 0 0 6px;overflow-wrap:anywhere}
td.say{white-space:normal;min-width:96px;max-width:260px;overflow-wrap:break-word}
@media(max-width:700px){.manifest{columns:1}}
@media print{@page{margin:14mm}body{font-size:11px;-webkit-print-color-adjust:exact;print-color-adjust:exact}
main{padding:0;max-width:none}h2{break-after:avoid;margin-top:22px}.grid{grid-template-columns:1fr 1fr;gap:8px}
figure{padding:8px}table{font-size:9px}th,td{padding:2px 4px}tr{break-inside:avoid}.scroll{overflow:visible}}
)";

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_REPORT_REPORT_STYLE_H_
