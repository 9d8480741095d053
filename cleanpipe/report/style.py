"""The page's style: system fonts, one accent, a blue and an orange that colour-blind readers tell apart.

Texts have a contrast of 4.5:1 and more on their grounds, in both themes.
"""

CSS = """
:root{color-scheme:light dark;--bg:#f7f7f5;--card:#fff;--ink:#1d2126;--soft:#5a636d;--line:#e2e4e6;--wash:#f1f3f5;
--accent:#0b5394;--kept:#3b82c4;--lost:#cc7719;--aside:#8468b0;--kept-ink:#0b5394;--lost-ink:#8f4700;--aside-ink:#5b3f8c;
--good:#17663a;--good-wash:#e8f4ec;--bad:#a3201d;--bad-wash:#fdeceb;--warn:#7a4a00;--warn-wash:#fdf3e0;--mark:#fff3c4;--edge:#00000024}
@media (prefers-color-scheme:dark){:root{--bg:#131619;--card:#1b1f24;--ink:#e4e7ea;--soft:#a2abb5;--line:#30363d;
--wash:#242a30;--accent:#85bdf2;--kept:#5598d8;--lost:#d98b3a;--aside:#a48bd0;--kept-ink:#85bdf2;--lost-ink:#f0b070;
--aside-ink:#c3b0e8;--good:#7fd6a0;--good-wash:#17301f;--bad:#ff9d97;--bad-wash:#3c1a1a;--warn:#f2c268;
--warn-wash:#33270f;--mark:#4a3f12;--edge:#00000059}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:1rem;-webkit-text-size-adjust:100%;text-size-adjust:100%}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"Helvetica Neue",Arial,sans-serif;overflow-wrap:break-word}
a{color:var(--accent);text-underline-offset:.18em;text-decoration-thickness:1px}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:3px solid var(--accent);outline-offset:2px;
border-radius:3px}
.skip{position:absolute;left:-99rem;top:0;background:var(--card);padding:.6rem 1rem;z-index:2}.skip:focus{left:0}
.page{max-width:84rem;margin:0 auto;padding:0 1rem}
main{min-width:0;padding-bottom:4rem}
header.top{padding:2.2rem 0 1.2rem}
h1{font-size:1.75rem;line-height:1.25;margin:0 0 .3rem;letter-spacing:-.01em;font-weight:650}
h2{font-size:1.3rem;line-height:1.3;margin:0 0 .4rem;letter-spacing:-.005em;font-weight:650}
h3{font-size:1.02rem;line-height:1.4;margin:1.9rem 0 .5rem;font-weight:650}
h4{font-size:.94rem;margin:1.2rem 0 .3rem;font-weight:650}
p{margin:.5rem 0;max-width:46rem}
.soft,figcaption small,.note{color:var(--soft)}.note{font-size:.875rem}
.sub{color:var(--soft);margin:0;font-size:.95rem;max-width:none}
.n,table,svg text{font-variant-numeric:tabular-nums}.n{white-space:nowrap}
code,pre{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
code{background:var(--wash);border-radius:4px;padding:.08em .32em}
pre{background:var(--wash);border-radius:6px;padding:.7rem .9rem;overflow-x:auto;margin:.5rem 0}
pre code{background:none;padding:0;overflow-wrap:normal;white-space:pre-wrap}
.hex{overflow-wrap:anywhere;font-size:.8em}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1.5rem 1.6rem 1.7rem;
margin:0 0 1.25rem}
section>h2+.rule{font-size:1.02rem;margin:.1rem 0 .9rem;max-width:50rem}
nav.toc{font-size:.9rem;line-height:1.35}
nav.toc ol{list-style:none;margin:.4rem 0;padding:0}nav.toc ol ol{margin:.1rem 0 .5rem;padding-left:.8rem}
nav.toc li{margin:0}
nav.toc a{display:block;padding:.26rem .5rem;color:var(--soft);text-decoration:none;border-radius:5px;
overflow-wrap:anywhere}
nav.toc a:hover{background:var(--wash);color:var(--ink)}
nav.toc summary{cursor:pointer;padding:.5rem;font-weight:600}
nav.toc{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.3rem .6rem;
margin-bottom:1.25rem}
@media (min-width:68rem){.page{display:grid;grid-template-columns:13.5rem minmax(0,1fr);gap:0 2rem}
header.top{grid-column:1/-1}
nav.toc{position:sticky;top:0;align-self:start;max-height:100vh;overflow-y:auto;background:none;border:0;
padding:.2rem 0}
@supports selector(::details-content){nav.toc summary{display:none}
nav.toc details::details-content{content-visibility:visible;display:block;height:auto}}}
.verdict{display:grid;gap:1rem 2rem;border-left:5px solid var(--good);padding-left:1.15rem}
.verdict.bad{border-left-color:var(--bad)}.verdict.warn{border-left-color:var(--lost)}
.verdict ul{list-style:none;margin:0;padding:0}.verdict li{padding:.16rem 0 .16rem 1.65rem;position:relative}
.verdict li::before{position:absolute;left:0;font-weight:700;content:"✓";color:var(--good)}
.verdict li.bad::before{content:"✗";color:var(--bad)}.verdict li.warn::before{content:"!";left:.3rem;color:var(--warn)}
.verdict li.bad strong{color:var(--bad)}.verdict li.warn strong{color:var(--warn)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.6rem,1fr));gap:.9rem 1.4rem;margin:.2rem 0}
.facts div{min-width:0}.facts dt{color:var(--soft);font-size:.82rem}
.facts dd{margin:0;font-size:1.42rem;font-weight:600;line-height:1.3;letter-spacing:-.01em}
.facts dd small{display:block;font-size:.82rem;font-weight:400;color:var(--soft);letter-spacing:0}
.facts.small dd{font-size:1.08rem}
.scroll{overflow-x:auto;margin:.7rem 0 .3rem;max-width:100%;
background:linear-gradient(to left,var(--card) 40%,transparent) right/36px
100% no-repeat local,linear-gradient(to left,var(--edge),transparent) right/16px 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.9rem;line-height:1.45;min-width:min(100%,20rem)}
caption{text-align:left;color:var(--soft);font-size:.875rem;padding:0 0 .35rem}
th,td{padding:.32rem .75rem .32rem 0;text-align:right;vertical-align:top;border-bottom:1px solid var(--line);
white-space:nowrap}
th:last-child,td:last-child{padding-right:.2rem}
thead th{color:var(--soft);font-weight:600;font-size:.82rem;vertical-align:bottom;border-bottom-width:2px}
tbody th{font-weight:500}
.l{text-align:left}.w{white-space:normal;min-width:11rem;max-width:30rem;overflow-wrap:break-word}
tbody tr:last-child>*{border-bottom:0}
tbody tr:hover>*{background:var(--wash)}
.u,.long{overflow-wrap:anywhere}.u{font-size:.95em}
bdi{overflow:hidden}
details{margin:.45rem 0}details.sql>summary{color:var(--soft);font-size:.84rem}
summary{cursor:pointer;color:var(--accent);font-size:.89rem;width:fit-content;max-width:100%}
details.more>summary{font-size:.95rem}
details[open]>summary{margin-bottom:.35rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:1.3rem 1.8rem;
margin:.8rem 0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:.4rem 2.2rem}
.pair>div{min-width:0}.pair svg.bar{width:5.5rem}
.score{border-top:1px solid var(--line);margin-top:1.1rem;padding-top:.2rem}
.score h4{font-size:1rem;margin:.7rem 0 .2rem}
.score h4 span{font-weight:400;font-size:.875rem}.score .note{margin:.1rem 0;max-width:none}
h3+.score{border-top:0;margin-top:0}
figure{margin:0;min-width:0}figcaption{font-weight:600;font-size:.93rem;line-height:1.4}
figcaption small{display:block;font-weight:400;font-size:.84rem}
svg.chart{display:block;width:100%;max-width:33rem;height:auto;margin:.35rem 0 .1rem;overflow:visible}
svg.wide{max-width:44rem}
svg text{font-family:inherit;font-size:11px;fill:var(--soft)}svg text.s{fill:var(--ink)}
svg .axis{stroke:var(--soft);stroke-width:1}svg .grid{stroke:var(--line);stroke-width:1}
svg .kept,.key.kept{fill:var(--kept);background:var(--kept)}svg .lost,.key.lost{fill:var(--lost);background:var(--lost)}
svg .aside,.key.aside{fill:var(--aside);background:var(--aside)}svg .rest{fill:var(--wash)}
svg .limit{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:4 3}
svg text.limit{stroke:none;fill:var(--ink);font-weight:600;paint-order:stroke;}
svg .curve{fill:none;stroke:var(--kept);stroke-width:2}svg .curve.b{stroke:var(--lost)}
svg .curve.c{stroke:var(--aside);stroke-dasharray:5 3}
svg .dot{fill:var(--kept)}svg .dot.b{fill:var(--lost)}svg .dot.c{fill:var(--aside)}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.82rem;color:var(--soft);margin:.1rem 0}
.key{display:inline-block;width:.72em;height:.72em;border-radius:2px;margin-right:.4em}
svg.bar{display:block;width:7.5rem;height:.7rem;margin:.34rem 0}
.k{color:var(--kept-ink)}.d{color:var(--lost-ink)}.q{color:var(--aside-ink)}
.tag{display:inline-block;border-radius:4px;padding:.02rem .42rem;font-size:.82rem;font-weight:600;
background:var(--wash)}
.tag.good{background:var(--good-wash);color:var(--good)}.tag.bad{background:var(--bad-wash);color:var(--bad)}
.tag.warn{background:var(--warn-wash);color:var(--warn)}
.samples{list-style:none;margin:.2rem 0 0;padding:0}
.samples li{padding:.5rem 0;border-bottom:1px solid var(--line);font-size:.9rem;line-height:1.5}
.samples li:last-child{border-bottom:0}
.samples .why{font-weight:600}
.samples small{color:var(--soft);font-size:.84rem;display:block;overflow-wrap:anywhere}
.samples small.kv{display:flex;flex-wrap:wrap;gap:0 .9rem}
.caution{background:var(--warn-wash);color:var(--warn);border-radius:8px;padding:.7rem 1rem;font-weight:600;
margin:0 0 1.25rem;max-width:none}
footer{color:var(--soft);font-size:.86rem;padding:0 0 3rem}
@media (max-width:40rem){body{font-size:15.5px}.page{padding:0 .7rem}svg text{font-size:12px}.w{min-width:7rem}
svg.bar,.pair svg.bar{width:3.4rem}
header.top{padding:1.3rem 0 .9rem}
section{padding:1.05rem .8rem 1.15rem;border-radius:8px}h1{font-size:1.4rem}.facts dd{font-size:1.2rem}
.facts{grid-template-columns:repeat(2,minmax(0,1fr))}}
@media print{:root{--bg:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#ccc;--wash:#f3f3f3;--accent:#0b5394;
--kept:#3b82c4;--lost:#cc7719;--aside:#8468b0;--kept-ink:#0b5394;--lost-ink:#8f4700;--aside-ink:#5b3f8c;--good:#17663a;
--good-wash:#e8f4ec;--bad:#a3201d;--bad-wash:#fdeceb;--warn:#7a4a00;--warn-wash:#fdf3e0;color-scheme:light}
body{font-size:10pt}.page{display:block;max-width:none;padding:0}nav.toc,.skip{display:none}
section{border:0;border-top:1px solid #999;border-radius:0;padding:.8rem 0}
.scroll{overflow:visible}th,td{white-space:normal}h2,h3,figcaption{break-after:avoid}figure,tr,li{break-inside:avoid}
details.sql,details.numbers{display:none}caption{break-after:avoid}
details::details-content{content-visibility:visible;display:block;height:auto}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""
